"""Two ranks on two nodes: network namespaces of this machine, joined by a cable (root only)."""

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from aiayn.errors import LaunchError
from aiayn.launch.slurm.job import own_address
from aiayn.runs.run_folder import RunFolder
from aiayn.train.network import choose_interface, node_address
from aiayn.train.ranks import Rank, joined_ranks
from tests.engine.pretended_node import enter_namespace
from tests.engine.test_rendezvous import listening
from tests.forks import fork

LONGEST_MEETING_SECONDS = 240
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def meet(folder: Path, index: int, node: str) -> None:
    """Join the ranks as one of two nodes, and write what it received, summed and listens on."""
    enter_namespace(node)
    # An earlier training in this process may have left its own choice of interface.
    for name in [name for name in os.environ if "SOCKET_IFNAME" in name]:
        del os.environ[name]
    signal.alarm(LONGEST_MEETING_SECONDS)  # ends this process
    address = node_address(ADDRESSES[1 - index])
    rank = Rank(rank=index, world_size=2, job="7", local_rank=0, node_address=address)
    with joined_ranks(RunFolder(folder), rank, "cpu") as group:
        full_path = group.broadcast_start("full_7.pt" if index == 0 else None)
        total = torch.full((3,), float(index + 1))
        torch.distributed.all_reduce(total)
        addresses = sorted({address for address, _ in listening()})
        torch.distributed.barrier()
    answer = [full_path, total.tolist(), addresses]
    (folder / f"{index}.json").write_text(json.dumps(answer), encoding="utf-8")


@contextlib.contextmanager
def linked_namespaces() -> Iterator[tuple[str, str]]:
    """Yield two network namespaces. Each has its loopback, a cable to the other, and both are on the
    campus network.

    Raises:
        OSError: if this process cannot make any.
    """
    names = (f"aiayn{os.getpid()}a", f"aiayn{os.getpid()}b")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)

    if shutil.which("ip") is None or os.geteuid() != 0:
        raise OSError("network namespaces need root and iproute2")
    try:
        ip("netns", "add", names[0])
    except subprocess.CalledProcessError as error:
        raise OSError(f"no network namespaces here: {error.stderr.decode()}") from error
    try:
        ip("netns", "add", names[1])
        for cable, network in (("cable", "10.77.0"), ("campus", "10.88.0")):
            ends = [f"{cable}{index} netns {name}".split() for index, name in enumerate(names)]
            ip("link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
            for index, name in enumerate(names):
                address = f"{network}.{index + 1}/24"
                ip("-n", name, "address", "add", address, "dev", f"{cable}{index}")
                ip("-n", name, "link", "set", f"{cable}{index}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)


@pytest.fixture
def nodes() -> Iterator[tuple[str, str]]:
    """Return two linked network namespaces."""
    with contextlib.ExitStack() as stack:
        try:
            names = stack.enter_context(linked_namespaces())
        except OSError as error:
            pytest.skip(str(error))
        yield names


def test_ranks_of_two_nodes_meet_and_listen_on_their_own_network_only(
    tmp_path: Path, nodes: tuple[str, str]
) -> None:
    """Neither gloo nor the store answers on the campus network, or on the loopback."""
    ranks = [fork(partial(meet, tmp_path, index, node)) for index, node in enumerate(nodes)]
    assert [os.waitpid(rank, 0)[1] for rank in ranks] == [0, 0]
    for index, address in enumerate(ADDRESSES):
        answer = json.loads((tmp_path / f"{index}.json").read_text(encoding="utf-8"))
        assert answer == ["full_7.pt", [3.0] * 3, [address]]


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the environment of the test without variables of interfaces. It is restored."""
    environment = {name: text for name, text in os.environ.items() if "SOCKET_IFNAME" not in name}
    monkeypatch.setattr(os, "environ", environment)
    return environment


@pytest.mark.parametrize("address", [None, "127.0.0.1", "127.0.0.3"])
def test_gloo_and_nccl_get_the_same_interface(
    address: str | None, variables: dict[str, str]
) -> None:
    choose_interface(address)
    assert variables["GLOO_SOCKET_IFNAME"] == "lo"
    assert variables["NCCL_SOCKET_IFNAME"] == "=lo"  # not every name that begins like it


def test_an_interface_that_the_user_has_set_decides(variables: dict[str, str]) -> None:
    variables["NCCL_SOCKET_IFNAME"] = "l"  # a prefix, as NCCL takes it
    assert node_address("192.0.2.1") == "127.0.0.1"
    choose_interface("127.0.0.1")
    assert variables["NCCL_SOCKET_IFNAME"] == "l"
    assert variables["GLOO_SOCKET_IFNAME"] == "lo"


def test_an_address_without_a_known_interface_sets_nothing(variables: dict[str, str]) -> None:
    before = dict(variables)
    choose_interface("192.0.2.1")
    assert variables == before


@pytest.mark.usefixtures("variables")
def test_a_node_whose_name_is_unknown_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    assert node_address("127.0.0.3") == "127.0.0.1"
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(LaunchError, match="no network to n9, a node of this job: Name or service"):
        node_address("n9")


@pytest.mark.usefixtures("variables")
def test_another_nodes_name_that_leads_to_this_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copied node may bear the other's name. Its ranks would wait for minutes for each other."""
    monkeypatch.setattr(platform, "node", lambda: "n1.campus")

    def address(node: int, *hosts: str) -> str | None:
        return own_address(SimpleNamespace(hostnames=hosts, node=node))

    with pytest.raises(LaunchError) as raised:
        address(0, "n1", "localhost")
    begin = "n1.campus: localhost, another node of this job, leads to this machine (127.0.0.1); "
    assert str(raised.value).startswith(begin)
    assert "`sbatch_lines: {exclude: NODE}` in the cluster's file" in str(raised.value)
    assert address(0, "n7", "localhost") == "127.0.0.1"  # both are this machine
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert address(0, "n1", "localhost") == "127.0.0.1"


@pytest.mark.usefixtures("variables")
def test_a_slurm_job_on_several_nodes_finds_its_address_by_another_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The own name may lead to 127.0.1.1, as on Debian."""
    monkeypatch.setattr(
        "aiayn.launch.slurm.job.node_address", lambda other, nodes: f"towards {other}"
    )

    def address(node: int, *hosts: str) -> str | None:
        return own_address(SimpleNamespace(hostnames=hosts, node=node))

    assert address(0, "n1") is None
    assert address(0, "n1", "n2") == "towards n2"
    assert address(1, "n1", "n2") == "towards n1"
