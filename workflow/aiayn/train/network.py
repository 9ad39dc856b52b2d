"""Finds the IP address and the network interface by which the nodes of a job reach each other.

This module does not import torch, because a job calls it before it imports torch.
"""

import fcntl
import ipaddress
import os
import platform
import socket
import struct
from collections.abc import Sequence

from aiayn.errors import LaunchError

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"
_LOOPBACK = "lo"
_SIOCGIFADDR = 0x8915  # Linux's request for the IPv4 address of an interface
_ANY_PORT = 9  # for a socket that never sends


def node_address(other_host: str, nodes: Sequence[str] = ()) -> str:
    """Return this node's IP address on the network that leads to `other_host`, a different node of
    the job.

    If the user has set a network interface for gloo or for NCCL in an environment variable, return
    the address of this interface. `nodes` are the names of the job's nodes.

    Raises:
        LaunchError: if this node cannot resolve the name `other_host`, if no network leads to that
            node, or if the name leads back to this machine.
    """
    if own_choice := _chosen_interface():
        address = _address_of(own_choice)
        if address is not None:
            return address
    try:
        answers = socket.getaddrinfo(other_host, _ANY_PORT, type=socket.SOCK_DGRAM)
        # IPv4 first, because `_address_of` finds only interfaces with an IPv4 address.
        answers.sort(key=lambda answer: answer[0] != socket.AF_INET)
        family, kind, _, _, destination = answers[0]
        with socket.socket(family, kind) as probe:
            # For UDP, `connect` does not send anything. The system only selects its own address.
            probe.connect(destination)
            address = str(probe.getsockname()[0])
    except OSError as error:
        raise LaunchError(
            f"{platform.node()}: no network to {other_host}, a node of this job:"
            f" {error.strerror or error}; the name must resolve on every node, or"
            f" `export {GLOO_INTERFACE}=INTERFACE` in the prologue of the cluster's file"
        ) from error
    # Several nodes may be one machine, to try a cluster: then none of them has the machine's name.
    is_a_node = platform.node().partition(".")[0] in [name.partition(".")[0] for name in nodes]
    if is_a_node and ipaddress.ip_address(address).is_loopback:
        raise LaunchError(
            f"{platform.node()}: {other_host}, another node of this job, leads to this machine"
            f" ({destination[0]}); one of the two has a wrong host name or line in /etc/hosts:"
            " correct it, leave that node out (`sbatch_lines: {exclude: NODE}` in the cluster's"
            f" file), or `export {GLOO_INTERFACE}=INTERFACE` in the prologue there"
        )
    return address


def choose_interface(address: str | None) -> None:
    """Let gloo and NCCL use the network interface with this `address`, or the loopback if None.

    Environment variables that the user has set for gloo or NCCL are not changed.
    """
    name = _LOOPBACK if address is None else _interface_of(address)
    if name is not None:
        os.environ.setdefault(GLOO_INTERFACE, name)
        # With `=`, NCCL takes exactly this interface. Without it, the name would be a prefix.
        os.environ.setdefault(NCCL_INTERFACE, f"={name}")


def _chosen_interface() -> str | None:
    """Return the network interface that the user has set for gloo or for NCCL, or None. The value
    for NCCL may be a prefix or a list of names.
    """
    value = os.environ.get(GLOO_INTERFACE) or os.environ.get(NCCL_INTERFACE, "").removeprefix("=")
    # NCCL's value may be exact (`=eth0`), a prefix (`eth`) or a list (`eth0,eth1`).
    first = value.partition(",")[0]
    names = [name for _, name in socket.if_nameindex()]
    if first in names:
        return first
    return next((name for name in names if first and name.startswith(first)), None)


def _interface_of(address: str) -> str | None:
    """Return the name of the network interface with this IPv4 address, or None if there is none."""
    # The loopback interface has one address, but serves all of 127.0.0.0/8.
    if ipaddress.ip_address(address).is_loopback:
        return _LOOPBACK
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if _address_of(name) == address), None)


def _address_of(interface: str) -> str | None:
    """Return the first IPv4 address of a network interface, or None if the interface does not have
    an IPv4 address.
    """
    # Linux's `struct ifreq`: 16 bytes for the name, the last of them 0, then a socket address, in
    # which the four bytes of the IPv4 address follow the family and the port.
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])
