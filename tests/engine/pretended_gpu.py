"""Pretends that this machine has a GPU, so that the code for GPUs runs and is counted on torch's
build for CPUs.

A `GpuTensor` reports the device cuda:0 and holds a tensor of the device meta (a shape of any size)
or of the CPU (real numbers, small models). torch's own dispatcher, autograd with its thread for the
device, and autocast's lists for CUDA do the rest. The device counts kernels, copies and the host's
waits, refuses operands on two devices, and lets a copy to the host that nobody waits for arrive
late, as a GPU does. It runs no kernel of a GPU, so it does not show that a kernel is right, or how
fast it is.

It changes tables of the process in memory, so it belongs in a process of its own:
`tests/engine/pretended_runs.py`.
"""

import collections
import contextlib
import ctypes
import functools
import math
import sys
import traceback
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

TORCH_VERSION = "2.13.0"  # whose tables `allow_cuda` knows; the version in constraints.txt
CUDA_INDEX = 1  # of c10::DeviceType
MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3  # torch.nn.attention.SDPBackend
aten = torch.ops.aten

NOT_KERNELS = {
    aten.empty, aten.empty_strided, aten.empty_like, aten.new_empty, aten.new_empty_strided, aten.detach, aten.alias,
    aten.lift_fresh, aten._unsafe_view, aten.set_, aten.record_stream, aten.is_same_size,
}  # fmt: skip
# Operators that start several kernels on a GPU; assumed from torch's source, not measured.
KERNELS_BY_OPERATOR = {
    aten.native_layer_norm_backward: 3, aten.embedding_dense_backward: 14, aten.sort: 8, aten.argsort: 8,
    aten.topk: 4, aten.cumsum: 2, aten.nonzero: 4, aten.slice_backward: 2, aten.select_backward: 2,
    aten._scaled_dot_product_efficient_attention_backward: 3,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: 3,
}  # fmt: skip
# The largest number of tensors, and of chunks of 65,536 numbers, in a kernel for lists of tensors.
TENSORS_PER_KERNEL, CHUNKS_PER_KERNEL, CHUNK = 55, 320, 65_536
# The host needs the result, or its shape, before it continues.
WAITING = {
    aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select, aten._unique2,
}  # fmt: skip
PRODUCTS = {
    aten.mm,
    aten.addmm,
    aten.addmm_,
    aten.bmm,
    aten.baddbmm,
}  # of one type; the device meta would not check it


def reason_unsupported() -> str:
    """Return why there can be no pretended GPU in this environment, '' if there can."""
    version = torch.__version__.partition("+")[0]
    if version != TORCH_VERSION:
        return f"the pretended GPU knows the tables of torch {TORCH_VERSION}, this is {version}"
    if sys.platform != "linux" or torch.version.cuda is not None:
        return "the pretended GPU needs torch's build for CPUs on Linux"
    return ""


def allow_cuda() -> None:
    """Let autograd accept the device cuda, which a build for CPUs refuses.

    torch has a guard for CUDA that does nothing, but registers it only in place of a guard that
    counts no devices. So such a guard is registered first. Then five of the functions that autograd
    asks about CUDA answer 1 in place of 0, and those that set or return the current device answer
    0.

    Raises:
        RuntimeError: if torch still knows no such device.
    """
    function = ctypes.CFUNCTYPE(ctypes.c_int64)
    answer_0, answer_1 = function(lambda: 0), function(lambda: 1)
    address_0, address_1 = (
        ctypes.cast(answer, ctypes.c_void_p).value for answer in (answer_0, answer_1)
    )
    folder = Path(torch.__file__).parent / "lib"
    guards = (ctypes.c_void_p * 32).in_dll(
        ctypes.CDLL(str(folder / "libc10.so")), "_ZN3c104impl26device_guard_impl_registryE"
    )
    guard_functions = (ctypes.c_void_p * 64)(*[address_0] * 64)
    guard = (ctypes.c_void_p * 4)(ctypes.addressof(guard_functions))
    guards[CUDA_INDEX] = ctypes.addressof(guard)
    torch._C._ensureCUDADeviceGuardSet()
    hooks_of = ctypes.CDLL(str(folder / "libtorch_cpu.so"))._ZN2at6detail12getCUDAHooksEv
    hooks_of.restype = ctypes.c_void_p
    hooks = ctypes.cast(hooks_of(), ctypes.POINTER(ctypes.c_void_p))
    functions = (ctypes.c_void_p * 64)(*ctypes.cast(hooks[0], ctypes.POINTER(ctypes.c_void_p))[:64])
    for index in (2, 3, 4, 6, 16):  # isBuilt, isAvailable, hasPrimaryContext, deviceCount, hasCUDA
        functions[index] = address_1
    for index in (7, 8, 9, 10):  # set, get, exchange and maybe exchange the current device
        functions[index] = address_0
    hooks[0] = ctypes.addressof(functions)
    _kept_alive.extend([answer_0, answer_1, guard_functions, guard, functions])
    if torch.accelerator.current_accelerator() != torch.device("cuda"):
        raise RuntimeError(
            f"torch {torch.__version__} knows no device cuda: its tables differ from"
            f" {TORCH_VERSION}'s"
        )
    torch._C._set_only_lift_cpu_tensors(
        True
    )  # torch.tensor(..., device="cuda") asks the dispatcher for the copy
    torch.__future__.set_overwrite_module_params_on_conversion(True)


_kept_alive: list[Any] = []  # C++ holds addresses of these


class GpuStorage:
    """A pretended tensor's storage, as far as checkpoints ask for it."""

    device = torch.device("cuda:0")

    def __init__(self, inner: torch.UntypedStorage) -> None:
        self.inner = inner

    def data_ptr(self) -> int:
        """Return a number that identifies the storage."""
        return self.inner._cdata

    def nbytes(self) -> int:
        """Return its size."""
        return self.inner.nbytes()


class GpuTensor(Tensor):
    """A tensor that reports cuda:0; `inner` has its shape, or its numbers."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> "GpuTensor":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device="cuda:0",
            requires_grad=False,
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return GPU.run(func, args, kwargs or {})

    def untyped_storage(self) -> GpuStorage:
        """Return the storage, which views share."""
        return GpuStorage(self.inner.untyped_storage())

    def data_ptr(self) -> int:
        """Return a number that identifies the first element's place."""
        return self.inner.untyped_storage()._cdata + self.storage_offset() * self.element_size()

    def set_(self, source: GpuStorage) -> "GpuTensor":
        """Return a tensor of a whole storage's bytes."""
        return GpuTensor(
            torch.empty(0, dtype=self.dtype, device=self.inner.device).set_(source.inner)
        )

    def tolist(self) -> Any:
        """Return numbers, by a copy to the host."""
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("a tensor of the GPU is pickled; expected a copy on the CPU")


class Gpu:
    """The device: it runs every operator on what its tensors hold, and counts what that is on a
    GPU.

    `has_numbers` chooses what tensors hold: real numbers, or only shapes.
    """

    def __init__(self) -> None:
        self.has_numbers = False
        self.late: list[
            tuple[Tensor, Tensor]
        ] = []  # buffers on the host, and what arrives there at the next wait
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self.phase = ""
        self.kernels: collections.Counter[str] = collections.Counter()  # by phase
        self.waits: collections.Counter[str] = collections.Counter()  # by the place in the code
        self.num_copies = 0
        self.attention: collections.Counter[str] = collections.Counter()
        self.num_attentions_with_cudnn = 0  # that torch was free to compute by cuDNN

    def wait(self, reason: str) -> None:
        """Let the host wait for the device."""
        for buffer, value in self.late:
            buffer.copy_(value)
        self.late.clear()
        frames = [
            frame
            for frame in traceback.extract_stack()
            if "/aiayn/" in frame.filename or "fairseq" in frame.filename
        ]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "a test"
        self.waits[f"{place} ({reason})"] += 1

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run one operator, on this device if a tensor or its argument `device` is there."""
        operator = func._overloadpacket
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
        on_gpu = [tensor for tensor in tensors if isinstance(tensor, GpuTensor)]
        device = kwargs.get("device")
        target = None if device is None else torch.device(device).type
        if not on_gpu and target != "cuda":
            return func(
                *args, **{name: value for name, value in kwargs.items() if name != "pin_memory"}
            )
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with Pretending():  # in inference mode nothing above has taken it apart
                return func.decompose(*args, **kwargs)
        if operator is aten.is_pinned:
            return False
        if operator is aten._fused_sdp_choice:
            return choose_kernel(*args, **kwargs)
        if operator in WAITING or (operator is aten.index and _has_mask(args[1])):
            self.wait(str(operator).removeprefix("aten."))
            if operator is aten._local_scalar_dense:
                return self._numbers(on_gpu[0]).item()
        if operator is aten._to_copy and on_gpu and target == "cpu":
            number = self._numbers(on_gpu[0]).to(kwargs.get("dtype") or on_gpu[0].dtype)
            return self._copy_to_host(
                number, torch.empty_like(number), bool(kwargs.get("non_blocking"))
            )
        if operator is aten.copy_ and not isinstance(args[0], GpuTensor):
            is_late = bool(kwargs.get("non_blocking") or args[2:3] == (True,))
            return self._copy_to_host(self._numbers(args[1]), args[0], is_late)
        if operator in (aten._to_copy, aten.copy_) and not isinstance(tensors[-1], GpuTensor):
            self._note_copy_from_host(operator, tensors[-1], args, kwargs)
        else:
            _require_one_device(func, tensors)
            self.kernels[self.phase] += num_kernels(func, args)
        if operator in PRODUCTS and len({tensor.dtype for tensor in tensors}) > 1:
            raise RuntimeError(
                f"expected operands of one type, {func} got {[tensor.dtype for tensor in tensors]}"
            )
        return self._compute(func, args, kwargs, on_gpu)

    def _numbers(self, tensor: Tensor) -> Tensor:
        """Return a copy of a tensor's numbers; ones where it holds none."""
        assert isinstance(tensor, GpuTensor)
        return (
            tensor.inner.clone()
            if self.has_numbers
            else torch.ones(tensor.shape, dtype=tensor.dtype)
        )

    def _copy_to_host(self, value: Tensor, buffer: Tensor, is_late: bool) -> Tensor:
        self.num_copies += 1
        if is_late:
            buffer.fill_(torch.nan if buffer.is_floating_point() else 77)
            self.late.append((buffer.detach(), value))
        else:
            self.wait("copy to the host")
            buffer.copy_(value)
        return buffer

    def _note_copy_from_host(
        self, operator: Any, source: Tensor, args: Any, kwargs: dict[str, Any]
    ) -> None:
        if operator is aten.copy_ and source.dim() == 0:  # a number, the argument of a kernel
            self.kernels[self.phase] += 1
            return
        self.num_copies += 1
        if not (kwargs.get("non_blocking") or args[2:3] == (True,)):
            self.wait("copy from the host")

    def _compute(
        self, func: Any, args: Any, kwargs: dict[str, Any], on_gpu: list["GpuTensor"]
    ) -> Any:
        """Compute an operator on the inner tensors; what it changes in place stays the same tensor."""
        inner_device = torch.device("cpu" if self.has_numbers else "meta")
        outer_by_inner = {id(tensor.inner): tensor for tensor in on_gpu}

        def inner_of(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.inner if isinstance(value, GpuTensor) else value.to(inner_device)
            return (
                inner_device if isinstance(value, torch.device) and value.type == "cuda" else value
            )

        flat, spec = tree_flatten((args, kwargs))
        inner_args, inner_kwargs = tree_unflatten([inner_of(value) for value in flat], spec)
        if inner_kwargs.get("device") is not None:
            inner_kwargs["device"] = inner_device
        inner_kwargs |= {
            name: False for name in ("pin_memory", "non_blocking") if inner_kwargs.get(name)
        }
        # A view of a tensor that is not of inference mode is not of it, either.
        is_inference = torch.is_inference_mode_enabled() and not (
            is_view(func) and not on_gpu[0].is_inference()
        )

        def outer_of(inner: Tensor) -> Tensor:
            outer = outer_by_inner.get(id(inner))
            if outer is None:
                with torch.inference_mode(is_inference):
                    outer = GpuTensor(inner)
            return outer

        return tree_map_only(Tensor, outer_of, func(*inner_args, **inner_kwargs))


GPU = Gpu()


class Pretending(TorchDispatchMode):
    """Sends every operator of this thread, and of autograd's, to the pretended device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return GPU.run(func, args, kwargs or {})


def is_view(func: Any) -> bool:
    """Return whether an operator returns its argument's memory, unchanged."""
    aliases = [
        argument.alias_info
        for argument in func._schema.arguments
        if argument.alias_info is not None
    ]
    has_result = any(result.alias_info is not None for result in func._schema.returns)
    return has_result and any(not alias.is_write for alias in aliases)


def num_kernels(func: Any, args: Any) -> int:
    """Return how many kernels an operator starts on a GPU."""
    operator = func._overloadpacket
    if operator in NOT_KERNELS or is_view(func):
        return 0
    if not str(operator).startswith(("aten._foreach", "aten._fused_adam")):
        return KERNELS_BY_OPERATOR.get(operator, 1)
    num_chunks = sum(math.ceil(tensor.numel() / CHUNK) for tensor in args[0])
    return max(
        math.ceil(len(args[0]) / TENSORS_PER_KERNEL), math.ceil(num_chunks / CHUNKS_PER_KERNEL)
    )


def _has_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _require_one_device(func: Any, tensors: list[Tensor]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, GpuTensor) and tensor.dim() > 0:  # a number may be on the CPU
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {func} got cuda:0 and cpu"
                f" ({tuple(tensor.shape)})"
            )


def choose_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> int:
    """Return the number of torch's kernel for an attention on an H100.

    torch's own choice, of `sdp_utils.cpp`, is compiled into builds for CUDA only.
    """
    is_half = query.dtype in (torch.float16, torch.bfloat16)
    widths = (query.shape[-1], value.shape[-1])
    is_aligned = all(width % (8 if is_half else 4) == 0 for width in widths)
    if torch.backends.cuda.cudnn_sdp_enabled() and is_half and is_aligned and max(widths) <= 128:
        return CUDNN
    if is_half and attn_mask is None and widths[0] == widths[1] <= 256:
        return FLASH
    return EFFICIENT if is_aligned else MATH


_attend_on_cpu = torch.nn.functional.scaled_dot_product_attention


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **options: Any,
) -> Tensor:
    """Compute an attention as torch's build for CUDA does; a build for CPUs would take plain
    products of matrices.
    """
    if not isinstance(query, GpuTensor):
        return _attend_on_cpu(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **options
        )
    GPU.num_attentions_with_cudnn += torch.backends.cuda.cudnn_sdp_enabled()
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (
            tensor.to(torch.get_autocast_dtype("cuda")) for tensor in (query, key, value)
        )
    kernel = choose_kernel(query, key, value, attn_mask, dropout_p, is_causal)
    kind = "causal" if is_causal else "masked" if attn_mask is not None else "open"
    GPU.attention[f"{kind}: {('math', 'flash', 'efficient', 'cudnn')[kernel]}"] += 1
    if attn_mask is not None:
        attn_mask = _prepare_mask(attn_mask, query, kernel)
    if GPU.has_numbers:
        return aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )[0]
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    has_gradient = torch.is_grad_enabled() and query.requires_grad
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, has_gradient, dropout_p, is_causal, scale=scale
    )[0]


def _prepare_mask(mask: Tensor, query: Tensor, kernel: int) -> Tensor:
    """Return a mask as a kernel needs it: numbers of the query's type, in rows that begin at
    multiples of 16.
    """
    if mask.dtype == torch.bool:
        hidden = torch.scalar_tensor(-torch.inf, dtype=query.dtype, device="cuda")
        mask = torch.where(mask, 0.0, hidden)
    mask = mask.to(query.dtype)
    num_keys = mask.shape[-1]
    if kernel == EFFICIENT and any(stride % 16 for stride in mask.stride()[:-1]):
        mask = torch.nn.functional.pad(mask, (0, -num_keys % 16 or 16))[..., :num_keys]
    return mask


def pretend_torch_cuda(num_gpus: int = 1) -> None:
    """Let torch.cuda's functions answer as on a node with `num_gpus` H100, for the rest of this
    process.
    """
    properties = SimpleNamespace(
        name="NVIDIA H100 80GB HBM3",
        major=9,
        minor=0,
        total_memory=85_520_809_984,
        uuid="0",
        multi_processor_count=132,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": num_gpus,
        "current_device": 0,
        "init": None,
        "_lazy_init": None,
        "set_device": None,
        "empty_cache": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "get_device_name": properties.name,
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "is_bf16_supported": True,
        "set_rng_state": None,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "max_memory_allocated": 0,
        "reset_peak_memory_stats": None,
        "is_current_stream_capturing": False,
        "memory_summary": "",
        "_is_in_bad_fork": False,
        "get_arch_list": ["sm_90"],
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, functools.partial(_answer, answer))
    torch.cuda.synchronize = lambda *_: GPU.wait("torch.cuda.synchronize")
    torch.cuda.DoubleTensor = functools.partial(torch.zeros, dtype=torch.float64, device="cuda")
    torch.cuda.ByteTensor = functools.partial(torch.zeros, dtype=torch.uint8, device="cuda")
    torch.accelerator.is_available = lambda: True
    torch.accelerator.set_device_index = lambda *_: None
    torch.accelerator.current_device_index = lambda: 0
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor.to("cuda")
    torch.nn.functional.scaled_dot_product_attention = attend
    torch.nn.Module.to = _move_with_ties


def _answer(answer: Any, *_: Any, **__: Any) -> Any:
    return answer


_move = torch.nn.Module.to


def _move_with_ties(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """Move a module; a parameter with two names stays shared, as on a real GPU, where only the
    data is replaced.
    """
    places = collections.defaultdict(list)
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            places[id(parameter)].append((owner, name))
    _move(module, *args, **kwargs)
    for (first, first_name), *others in places.values():
        for owner, name in others:
            owner._parameters[name] = first._parameters[first_name]
    return module


@contextlib.contextmanager
def pretended_ranks(world_size: int) -> Iterator[None]:
    """Play rank 0 of `world_size` ranks over NCCL in the block: a collective is a kernel that
    changes nothing.
    """
    if world_size == 1:
        yield
        return

    def collective(*args: Any, **_: Any) -> None:
        if not all(
            isinstance(tensor, GpuTensor)
            for tensor in tree_flatten(args)[0]
            if isinstance(tensor, Tensor)
        ):
            raise RuntimeError("No backend type associated with device type cpu")
        GPU.kernels[GPU.phase] += 1

    answers: dict[str, Callable[..., Any]] = {
        "is_initialized": lambda: True,
        "get_world_size": lambda group=None: world_size,
        "get_rank": lambda group=None: 0,
        "get_backend": lambda group=None: "nccl",
        "new_group": lambda *_, **__: None,
        "barrier": lambda *_, **__: None,
    }
    answers |= dict.fromkeys(("all_reduce", "broadcast", "all_gather"), collective)
    from fairseq.distributed import utils

    with (
        unittest.mock.patch.multiple(torch.distributed, **answers),
        unittest.mock.patch.object(
            utils, "all_gather_list", lambda data, *_, **__: [data] * world_size
        ),
    ):
        yield
