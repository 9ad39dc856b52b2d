"""Pretends that this process is a rank on a node of GPUs, so that the code for GPUs and NCCL runs,
and is counted, on torch's build for CPUs.

A `GpuTensor` reports the device cuda:INDEX and holds a tensor of the device meta (a shape of any
size) or of the CPU (real numbers, small models). torch's own dispatcher, autograd with a thread for
each device, and autocast's lists for CUDA do the rest. The node behaves as GPUs do where a mistake
would otherwise stay unseen:

- A tensor has a device index, and operands on two devices are refused. Each thread has a current
  device, which starts at 0.
- A copy from or to the host waits unless the host's memory is pinned. A copy that does not wait
  arrives late.
- Kernels, waits, copies, allocations, emptied caches, peak bytes and the types of products are
  counted, for each phase of an update.
- A collective needs tensors on the one device of its rank, a group that was asked to be NCCL, and
  ranks on different devices. NCCL's group does no work for tensors of the CPU.

gloo stands in for NCCL: a collective adds the inner tensors of all ranks by gloo, with real
numbers. It adds in another order than NCCL, at the moment of the call, and has no streams. So
this shows which numbers are added, by which ranks and on which devices. It cannot show races
between streams or threads, NCCL's own errors and time-outs, that a kernel is right, or speed.

It changes tables of the process in memory, so it belongs in a process of its own, before the first
backward pass: `tests/engine/pretended_runs.py`.
"""

import collections
import contextlib
import ctypes
import functools
import math
import os
import sys
import threading
import traceback
import unittest.mock
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

TORCH_VERSION = "2.13.0"  # whose tables `allow_cuda` knows; the version in constraints.txt
CUDA_INDEX = 1  # of c10::DeviceType
GPUS_PER_NODE = 8
MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3  # torch.nn.attention.SDPBackend
BLOCK_BYTES = 512  # what CUDA's allocator rounds a size up to
NCCL_SECONDS = 600.0  # NCCL's own time-out
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
PRODUCTS = {aten.mm, aten.addmm, aten.addmm_, aten.bmm, aten.baddbmm}


def reason_unsupported() -> str:
    """Return why there can be no pretended node in this environment, '' if there can."""
    version = torch.__version__.partition("+")[0]
    if version != TORCH_VERSION:
        return f"the pretended node knows the tables of torch {TORCH_VERSION}, this is {version}"
    if sys.platform != "linux" or torch.version.cuda is not None:
        return "the pretended node needs torch's build for CPUs on Linux"
    return ""


def allow_cuda() -> None:
    """Let autograd accept the devices cuda:0 to cuda:7, which a build for CPUs refuses.

    torch has a guard for CUDA that does nothing, but registers it only in place of a guard that
    counts no devices. So such a guard is registered first. Then the guard's functions that count
    devices and set a thread's device are replaced, and those that autograd asks about CUDA.

    Raises:
        RuntimeError: if torch still knows no such device.
    """
    answer_0, answer_1, answer_count = (
        _C_FUNCTION(lambda *_, value=value: value) for value in (0, 1, GPUS_PER_NODE)
    )
    folder = Path(torch.__file__).parent / "lib"
    guards = (ctypes.c_void_p * 32).in_dll(
        ctypes.CDLL(str(folder / "libc10.so")), "_ZN3c104impl26device_guard_impl_registryE"
    )
    no_functions = (ctypes.c_void_p * 64)(*[_address(answer_0)] * 64)
    no_guard = (ctypes.c_void_p * 4)(ctypes.addressof(no_functions))
    guards[CUDA_INDEX] = ctypes.addressof(no_guard)
    torch._C._ensureCUDADeviceGuardSet()
    # getDevice, setDevice, which autograd's thread of a device calls first, and deviceCount.
    functions = {2: _C_FUNCTION(_device_of_thread), 3: _C_FUNCTION(_enter_thread), 15: answer_count}
    _replace_functions(guards[CUDA_INDEX], functions)
    hooks_of = ctypes.CDLL(str(folder / "libtorch_cpu.so"))._ZN2at6detail12getCUDAHooksEv
    hooks_of.restype = ctypes.c_void_p
    # isBuilt, isAvailable, hasPrimaryContext, deviceCount, hasCUDA; 7 to 10: set, get, exchange and
    # maybe exchange the current device.
    answers = dict.fromkeys((2, 3, 4, 16), answer_1) | dict.fromkeys((7, 9, 10), answer_0)
    answers |= {6: answer_count, 8: _C_FUNCTION(lambda *_: CURRENT.index)}
    _replace_functions(hooks_of(), answers)
    _kept_alive.extend([answer_0, no_functions, no_guard])
    if torch.accelerator.current_accelerator() != torch.device("cuda"):
        raise RuntimeError(
            f"torch {torch.__version__} knows no device cuda: its tables differ from"
            f" {TORCH_VERSION}'s"
        )
    # torch.tensor(..., device="cuda") asks the dispatcher for the copy
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)


_C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64)
_kept_alive: list[Any] = []  # C++ holds addresses of these


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _replace_functions(instance: int, function_by_index: dict[int, Any]) -> None:
    """Give a C++ object a copy of its table of virtual functions with some of them replaced."""
    table = ctypes.cast(instance, ctypes.POINTER(ctypes.c_void_p))
    functions = (ctypes.c_void_p * 64)(*ctypes.cast(table[0], ctypes.POINTER(ctypes.c_void_p))[:64])
    for index, function in function_by_index.items():
        functions[index] = _address(function)
    table[0] = ctypes.addressof(functions)
    _kept_alive.extend([functions, *function_by_index.values()])


class ThreadDevice(threading.local):
    """The current device of each thread."""

    index = 0


CURRENT = ThreadDevice()


def _enter_thread(_: int, device: int) -> int:
    """Set the device of one of autograd's threads. `device` is a c10::Device of two bytes."""
    CURRENT.index = device >> 8 & 0x7F
    return 0


def _device_of_thread(*_: int) -> int:
    """Return this thread's device as a c10::Device."""
    return CUDA_INDEX | CURRENT.index << 8


def set_device(device: Any) -> None:
    """Set this thread's current device."""
    index = index_of(device)
    if index >= GPUS_PER_NODE:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal {index}; there are {GPUS_PER_NODE} devices"
        )
    CURRENT.index = index


def index_of(device: Any) -> int:
    """Return the index of a device. `cuda` is the current device of this thread."""
    if device is None:
        return CURRENT.index
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return CURRENT.index if index is None else int(index)


class Block:
    """Memory of a device, alive as long as a tensor in it."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES
        GPU.counts.num_allocations += 1
        GPU.num_bytes += self.num_bytes
        GPU.peak_bytes = max(GPU.peak_bytes, GPU.num_bytes)
        GPU.counts.peak_bytes = max(GPU.counts.peak_bytes, GPU.num_bytes)

    def __del__(self) -> None:
        GPU.num_bytes -= self.num_bytes


class GpuStorage:
    """A pretended tensor's storage, as far as checkpoints ask for it."""

    def __init__(self, inner: torch.UntypedStorage, index: int) -> None:
        self.inner = inner
        self.device = torch.device("cuda", index)

    def data_ptr(self) -> int:
        """Return a number that identifies the storage."""
        return self.inner._cdata

    def nbytes(self) -> int:
        """Return its size."""
        return self.inner.nbytes()


class GpuTensor(Tensor):
    """A tensor that reports a device of CUDA. `inner` has its shape, or its numbers."""

    @staticmethod
    def __new__(cls, inner: Tensor, index: int) -> "GpuTensor":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=f"cuda:{index}",
            requires_grad=False,
        )

    def __init__(self, inner: Tensor, index: int) -> None:
        self.inner = inner
        self.block = GPU.block_of(inner)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return GPU.run(func, args, kwargs or {})

    def untyped_storage(self) -> GpuStorage:
        """Return the storage, which views share."""
        return GpuStorage(self.inner.untyped_storage(), self.get_device())

    def data_ptr(self) -> int:
        """Return a number that identifies the first element's place."""
        return self.inner.untyped_storage()._cdata + self.storage_offset() * self.element_size()

    def set_(self, source: GpuStorage) -> "GpuTensor":
        """Return a tensor of a whole storage's bytes."""
        whole = torch.empty(0, dtype=self.dtype, device=self.inner.device).set_(source.inner)
        return GpuTensor(whole, self.get_device())

    def tolist(self) -> Any:
        """Return numbers, by a copy to the host."""
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("a tensor of the GPU is pickled; expected a copy on the CPU")


class Counts:
    """What a phase of an update asks of the device and the host."""

    def __init__(self, phase: str = "") -> None:
        self.phase = phase
        self.num_kernels = 0
        self.num_copies = 0
        self.num_allocations = 0
        self.num_emptied = 0  # caches of the allocator
        self.peak_bytes = 0
        self.waits: collections.Counter[str] = collections.Counter()  # by the place in the code
        self.products: collections.Counter[str] = collections.Counter()  # by the type of operands


class Gpu:
    """The device of this process: it runs every operator on what its tensors hold, and counts what
    that is on a GPU.

    `has_numbers` chooses what tensors hold: real numbers, or only shapes.
    """

    def __init__(self) -> None:
        self.has_numbers = False
        # Buffers on the host, and what arrives there at the next wait.
        self.late: list[tuple[Tensor, Tensor]] = []
        self.counts = Counts()
        self.finished: list[Counts] = []
        self.num_bytes = self.peak_bytes = 0
        self._blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self.counts = Counts()
        self.finished = [self.counts]
        self.attention: collections.Counter[str] = collections.Counter()
        self.num_attentions_with_cudnn = 0  # that torch was free to compute by cuDNN

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[Counts]:
        """Count the block apart, also what phases within it do not count."""
        outer, self.counts = self.counts, Counts(name)
        self.finished.append(self.counts)
        try:
            yield self.counts
        finally:
            self.counts = outer

    def block_of(self, inner: Tensor) -> Block:
        """Return the memory of a tensor, which its views share."""
        storage = inner.untyped_storage()
        block = self._blocks.get(storage._cdata)
        if block is None:
            block = self._blocks[storage._cdata] = Block(storage.nbytes())
        return block

    def wait(self, reason: str) -> None:
        """Let the host wait for the device."""
        for buffer, value in self.late:
            buffer.copy_(value)
        self.late.clear()
        self.counts.waits[f"{place_in_code()} ({reason})"] += 1

    def empty_cache(self) -> None:
        """Give freed memory back to the driver, which waits for all kernels."""
        self.counts.num_emptied += 1
        self.wait("empty_cache")

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run one operator, on this device if a tensor or its argument `device` is there."""
        operator = func._overloadpacket
        tensors = _tensors_of(args, kwargs)
        on_gpu = [tensor for tensor in tensors if isinstance(tensor, GpuTensor)]
        device = kwargs.get("device")
        target = None if device is None else torch.device(device).type
        if not on_gpu and target != "cuda":
            result = func(*args, **{n: value for n, value in kwargs.items() if n != "pin_memory"})
            return mark_pinned(result) if kwargs.get("pin_memory") else result
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with Pretending():  # in inference mode nothing above has taken it apart
                return func.decompose(*args, **kwargs)
        if operator is aten._fused_sdp_choice:
            return choose_kernel(*args, **kwargs)
        if operator in WAITING or (operator is aten.index and _has_mask(args[1])):
            self.wait(str(operator).removeprefix("aten."))
            if operator is aten._local_scalar_dense:
                return self._numbers(on_gpu[0]).item()
        is_async = bool(kwargs.get("non_blocking"))
        if operator is aten.copy_:
            is_async = is_async or args[2:3] == (True,)
        if operator is aten._to_copy and on_gpu and target == "cpu":
            number = self._numbers(on_gpu[0]).to(kwargs.get("dtype") or on_gpu[0].dtype)
            # torch itself pins the result of such a copy
            return self._copy_to_host(number, torch.empty_like(number), is_async)
        if operator is aten.copy_ and not isinstance(args[0], GpuTensor):
            return self._copy_to_host(
                self._numbers(args[1]), args[0], is_async and is_pinned(args[0])
            )
        if operator in (aten._to_copy, aten.copy_) and not isinstance(tensors[-1], GpuTensor):
            self._note_copy_from_host(operator, tensors[-1], is_async)
        else:
            _require_one_device(func, tensors)
            self.counts.num_kernels += num_kernels(func, args)
        if operator in PRODUCTS:
            self._count_product(func, tensors)
        index = on_gpu[0].get_device() if device is None and on_gpu else index_of(device)
        return self._compute(func, args, kwargs, on_gpu, index)

    def _count_product(self, func: Any, tensors: list[Tensor]) -> None:
        types = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}
        if len(types) > 1:  # the device meta would not check it
            raise RuntimeError(f"expected operands of one type, {func} got {sorted(types)}")
        self.counts.products[types.pop()] += 1

    def _numbers(self, tensor: Tensor) -> Tensor:
        """Return a copy of a tensor's numbers; ones where it holds none."""
        assert isinstance(tensor, GpuTensor)
        if self.has_numbers:
            return tensor.inner.clone()
        return torch.ones(tensor.shape, dtype=tensor.dtype)

    def _copy_to_host(self, value: Tensor, buffer: Tensor, is_late: bool) -> Tensor:
        self.counts.num_copies += 1
        if is_late:
            buffer.fill_(torch.nan if buffer.is_floating_point() else 77)
            self.late.append((buffer.detach(), value))
        else:
            self.wait("copy to the host")
            buffer.copy_(value)
        return buffer

    def _note_copy_from_host(self, operator: Any, source: Tensor, is_async: bool) -> None:
        if operator is aten.copy_ and source.dim() == 0:  # a number, the argument of a kernel
            self.counts.num_kernels += 1
            return
        self.counts.num_copies += 1
        if not (is_async and is_pinned(source)):
            self.wait("copy from the host")

    def _compute(
        self, func: Any, args: Any, kwargs: dict[str, Any], on_gpu: list[GpuTensor], index: int
    ) -> Any:
        """Compute an operator on the inner tensors. What it changes in place stays the same tensor."""
        inner_device = torch.device("cpu" if self.has_numbers else "meta")
        outer_by_inner = {id(tensor.inner): tensor for tensor in on_gpu}

        def inner_of(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.inner if isinstance(value, GpuTensor) else value.to(inner_device)
            is_device = isinstance(value, torch.device) and value.type == "cuda"
            return inner_device if is_device else value

        inner_args = [_mapped(inner_of, value) for value in args]
        inner_kwargs = {name: _mapped(inner_of, value) for name, value in kwargs.items()}
        if inner_kwargs.get("device") is not None:
            inner_kwargs["device"] = inner_device
        inner_kwargs |= {
            name: False for name in ("pin_memory", "non_blocking") if inner_kwargs.get(name)
        }
        # A view of a tensor that is not of inference mode is not of it, either.
        is_inference = torch.is_inference_mode_enabled() and not (
            is_view(func) and not on_gpu[0].is_inference()
        )

        def outer_of(inner: Any) -> Any:
            if not isinstance(inner, Tensor):
                return inner
            outer = outer_by_inner.get(id(inner))
            if outer is None:
                with torch.inference_mode(is_inference):
                    outer = GpuTensor(inner, index)
            return outer

        return _mapped(outer_of, func(*inner_args, **inner_kwargs))


GPU = Gpu()


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a value, or to each of a list. torch's own trees take half of a run."""
    if isinstance(value, list | tuple):
        return type(value)(_mapped(function, part) for part in value)
    return function(value)


def _tensors_of(args: Any, kwargs: Any) -> list[Tensor]:
    tensors = []
    for value in (*args, *kwargs.values()):
        parts = value if isinstance(value, list | tuple) else (value,)
        tensors += [part for part in parts if isinstance(part, Tensor)]
    return tensors


class Pretending(TorchDispatchMode):
    """Sends every operator of this thread, and of autograd's, to the pretended device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return GPU.run(func, args, kwargs or {})


def place_in_code() -> str:
    """Return the innermost line of the product or of fairseq on the stack."""
    for frame, line in traceback.walk_stack(sys._getframe()):
        name = frame.f_code.co_filename
        if "/aiayn/" in name or "fairseq" in name:
            return f"{Path(name).name}:{line}"
    return "a test"


def mark_pinned(tensor: Tensor) -> Tensor:
    """Let the memory of a tensor of the host count as pinned."""
    tensor.untyped_storage().is_pretended_pinned = True  # type: ignore[attr-defined]
    return tensor


def pin(tensor: Tensor, *_: Any) -> Tensor:
    """Return a copy of a tensor in pinned memory."""
    return mark_pinned(tensor.clone())


def is_pinned(tensor: Tensor, *_: Any) -> bool:
    """Return whether a tensor of the host is in pinned memory."""
    return not isinstance(tensor, GpuTensor) and hasattr(
        tensor.untyped_storage(), "is_pretended_pinned"
    )


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
    devices = {
        str(tensor.device) for tensor in tensors if tensor.dim() > 0
    }  # a number may be elsewhere
    if len(devices) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {func} got {sorted(devices)}"
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
    """Compute an attention as torch's build for CUDA does. A build for CPUs would take plain
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


def pretend_torch_cuda() -> None:
    """Let torch.cuda's functions answer as on a node of H100, for the rest of this process."""

    def properties(device: Any = None) -> SimpleNamespace:
        index = index_of(device)
        if not 0 <= index < GPUS_PER_NODE:
            raise AssertionError("Invalid device id")
        return SimpleNamespace(
            name="NVIDIA H100 80GB HBM3",
            major=9,
            minor=0,
            total_memory=85_520_809_984,
            uuid=f"GPU-{index}",
            multi_processor_count=132,
        )

    def exchange(index: int) -> int:
        before = CURRENT.index
        if index >= 0:
            set_device(index)
        return before

    def reset_peak(*_: Any) -> None:
        GPU.peak_bytes = GPU.num_bytes

    total_bytes = properties(0).total_memory
    constants: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": GPUS_PER_NODE,
        "init": None,
        "_lazy_init": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "is_bf16_supported": True,
        "set_rng_state": None,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "is_current_stream_capturing": False,
        "memory_summary": "",
        "_is_in_bad_fork": False,
        "get_arch_list": ["sm_90"],
    }
    functions: dict[str, Any] = {
        answered: functools.partial(_answer, answer) for answered, answer in constants.items()
    }
    functions |= {
        "current_device": lambda: CURRENT.index,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "get_device_properties": properties,
        "get_device_name": lambda device=None: properties(device).name,
        "get_device_capability": lambda device=None: (9, 0),
        "empty_cache": GPU.empty_cache,
        "synchronize": lambda *_: GPU.wait("torch.cuda.synchronize"),
        "memory_allocated": lambda *_: GPU.num_bytes,
        "max_memory_allocated": lambda *_: GPU.peak_bytes,
        "reset_peak_memory_stats": reset_peak,
        "mem_get_info": lambda *_: (total_bytes - GPU.num_bytes, total_bytes),
        "DoubleTensor": functools.partial(torch.zeros, dtype=torch.float64, device="cuda"),
        "ByteTensor": functools.partial(torch.zeros, dtype=torch.uint8, device="cuda"),
    }
    for replaced, function in functions.items():
        setattr(torch.cuda, replaced, function)
    torch.accelerator.is_available = lambda: True
    torch.accelerator.set_device_index = set_device
    torch.accelerator.current_device_index = lambda: CURRENT.index
    torch.Tensor.pin_memory = pin
    torch.Tensor.is_pinned = is_pinned
    torch.Tensor.cuda = lambda tensor, device=None, non_blocking=False, **_: tensor.to(
        torch.device("cuda", index_of(device)), non_blocking=non_blocking
    )
    torch.nn.functional.scaled_dot_product_attention = attend
    torch.nn.Module.to = _move_with_ties


def _answer(answer: Any, *_: Any, **__: Any) -> Any:
    return answer


_move = torch.nn.Module.to


def _move_with_ties(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """Move a module. A parameter with two names stays shared, as on a real GPU, where only the
    data is replaced.
    """
    owners_by_id = collections.defaultdict(list)
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            owners_by_id[id(parameter)].append((owner, name))
    _move(module, *args, **kwargs)
    for (first, first_name), *others in owners_by_id.values():
        for owner, name in others:
            owner._parameters[name] = first._parameters[first_name]
    return module


class Node:
    """The process group that this process asked torch for. `pretend_nccl` records it here."""

    def __init__(self) -> None:
        self.number = 0  # of the node
        self.backend_by_group: dict[Any, str] = {}
        self.seconds_by_backend: dict[str, float] = {}  # the time-out of collectives
        self.device: int | None = None  # of this rank's collectives
        self.num_collectives = 0

    def collective(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do a collective with the inner tensors, by gloo."""
        tensors = _tensors_of(args, kwargs)
        group = kwargs.get("group")
        backend = self.backend(group)
        devices = {tensor.device.type for tensor in tensors}
        if backend == "nccl" and devices != {"cuda"}:
            raise RuntimeError(f"No backend type associated with device type {sorted(devices)}")
        if backend == "gloo" and devices != {"cpu"}:
            raise RuntimeError(f"GPUs reduce by gloo, expected nccl: {call.__name__}")
        if backend == "gloo":
            return call(*args, **kwargs)
        self._require_own_device({tensor.get_device() for tensor in tensors}, group)
        GPU.counts.num_kernels += 1
        self.num_collectives += 1
        if not GPU.has_numbers:
            return None

        def inner_of(value: Any) -> Any:
            return value.inner if isinstance(value, GpuTensor) else value

        inner_args = [_mapped(inner_of, value) for value in args]
        return call(*inner_args, **{name: inner_of(value) for name, value in kwargs.items()})

    def _require_own_device(self, indices: set[int], group: Any) -> None:
        """Require that a rank uses one device, and that no other rank of its node uses it."""
        if indices == {self.device}:
            return
        if self.device is not None or len(indices) > 1:
            raise RuntimeError(
                f"NCCL error: this rank reduced on device {self.device}, now on {sorted(indices)}"
            )
        (self.device,) = indices
        owners: list[Any] = [(self.number, self.device)]
        if GPU.has_numbers:
            owners *= torch.distributed.get_world_size(group)
            torch.distributed.all_gather_object(owners, (self.number, self.device), group=group)
        doubles = [owner for owner in owners if owners.count(owner) > 1]
        if doubles:
            ranks = [rank for rank, owner in enumerate(owners) if owner == doubles[0]]
            raise RuntimeError(
                "NCCL error: ncclInvalidUsage: Duplicate GPU detected: ranks"
                f" {ranks} both on CUDA device {doubles[0][1]}"
            )

    def backend(self, group: Any = None) -> str:
        """Return the backend that a group was asked to have."""
        return self.backend_by_group[group]


NODE = Node()


def pretend_nccl(number: int) -> None:
    """Let torch.distributed of this process, on the node of this number, form groups of NCCL.

    Torch's fake group is used if the ranks exchange no numbers: then no other rank needs to run.
    """
    NODE.number = number
    dist = torch.distributed
    init, new_group, monitored_barrier = (
        dist.init_process_group,
        dist.new_group,
        dist.monitored_barrier,
    )

    def note(group: Any, backend: str, timeout: Any) -> None:
        NODE.backend_by_group[group] = backend
        seconds = NCCL_SECONDS if timeout is None else timeout.total_seconds()
        earlier_seconds = NODE.seconds_by_backend.get(backend, seconds)
        NODE.seconds_by_backend[backend] = min(earlier_seconds, seconds)

    def pretended_init(backend: str, *args: Any, **kwargs: Any) -> None:
        note(None, backend, kwargs.get("timeout"))
        if GPU.has_numbers:
            init("gloo", *args, **kwargs)
        else:
            from torch.testing._internal.distributed.fake_pg import FakeStore

            init("fake", store=FakeStore(), rank=kwargs["rank"], world_size=kwargs["world_size"])
        NODE.backend_by_group[dist.group.WORLD] = backend

    def pretended_group(*args: Any, backend: str | None = None, **kwargs: Any) -> Any:
        kind = "gloo" if GPU.has_numbers else "fake"
        group = new_group(*args, backend=kind, **kwargs)
        note(group, backend or NODE.backend(), kwargs.get("timeout"))
        return group

    def pretended_barrier(group: Any = None, *args: Any, **kwargs: Any) -> None:
        if NODE.backend(group) != "gloo":
            raise ValueError("monitored_barrier is only implemented for GLOO backend")
        monitored_barrier(group, *args, **kwargs)

    for name in ("all_reduce", "broadcast", "all_gather"):
        setattr(dist, name, functools.partial(NODE.collective, getattr(dist, name)))
    dist.init_process_group, dist.new_group = pretended_init, pretended_group
    dist.monitored_barrier, dist.get_backend = pretended_barrier, NODE.backend


def enter_namespace(name: str) -> None:
    """Move this thread, and those that it starts, into a network namespace, whose loopback is its
    own.

    Raises:
        OSError: if the system refuses it.
    """
    new_network = 0x40000000  # CLONE_NEWNET
    descriptor = os.open(f"/var/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, new_network) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    os.close(descriptor)


def pretend(node: int = 0, *, has_numbers: bool = True) -> None:
    """Let this process be one of a node's, before autograd's first use, which starts its threads."""
    allow_cuda()
    pretend_torch_cuda()
    pretend_nccl(node)
    GPU.has_numbers = has_numbers


def in_phase(function: Callable[..., Any], phase: str) -> Callable[..., Any]:
    """Return a function whose calls are counted as a phase."""

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        with GPU.phase(phase):
            return function(*args, **kwargs)

    return counted


def counted(owner: Any, name: str, phase: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context that counts the calls of a function as a phase."""
    return unittest.mock.patch.object(owner, name, in_phase(getattr(owner, name), phase))
