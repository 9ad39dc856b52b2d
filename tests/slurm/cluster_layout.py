"""What the test cluster is made of: its nodes and partitions, the files in its one folder, and
Slurm's configuration.

Tried with Slurm 22.05, as Debian 12 has it. Every setting that is not Slurm's default says why it
is there.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from tests.slurm.cluster_processes import ClusterError

NODES = ("n1", "n2")
GPUS_PER_NODE = 8
CPUS_PER_NODE = 16  # pretended, like the memory: slurmd is configured to believe it
MEMORY_MIB_PER_NODE = 64_000
KILL_WAIT_SECONDS = 5  # between TERM and KILL; Slurm's default is 30
CREDENTIAL_SECONDS = 10
SLURMD_TIMEOUT_SECONDS = 30  # after which a silent node is down; Slurm's default is 300

DEFAULT_PARTITION = "main"
REQUEUED_PARTITION = "requeued"  # its jobs give way to `urgent` ones and are queued again
GRACE_PARTITION = "grace"  # as `requeued`, but its jobs are asked by TERM, and have a minute
CANCELLED_PARTITION = "cancelled"  # its jobs give way and are gone
URGENT_PARTITION = "urgent"
SHORT_PARTITION = "short"  # no job of more than a minute, the least that Slurm can count

# Ports of the database, slurmdbd, slurmctld and each slurmd.
NUM_PORTS = 3 + len(NODES)
LONGEST_SOCKET_PATH = 107  # of a Unix socket, in bytes


@dataclass(frozen=True)
class Layout:
    """One cluster's folder, and the first of its NUM_PORTS ports."""

    folder: Path
    first_port: int

    def __post_init__(self) -> None:
        longest = len(os.fsencode(self.socket_path("mariadbd")))
        if longest > LONGEST_SOCKET_PATH:
            raise ClusterError(
                f"{self.folder}: its sockets' paths have {longest} bytes, Linux takes"
                f" {LONGEST_SOCKET_PATH}; choose a shorter --folder"
            )

    @property
    def conf_folder(self) -> Path:
        """Slurm's configuration."""
        return self.folder / "conf"

    @property
    def slurm_conf_path(self) -> Path:
        """What SLURM_CONF names."""
        return self.conf_folder / "slurm.conf"

    @property
    def log_folder(self) -> Path:
        """What the daemons print."""
        return self.folder / "log"

    @property
    def bin_folder(self) -> Path:
        """What stands first on the PATH of the cluster's users."""
        return self.folder / "bin"

    @property
    def munge_key_path(self) -> Path:
        """The secret that all daemons share."""
        return self.folder / "munge" / "key"

    @property
    def password_path(self) -> Path:
        """The password of slurmdbd in the database."""
        return self.folder / "munge" / "database-password"

    @property
    def gpu_folder(self) -> Path:
        """The pretended GPUs."""
        return self.folder / "gpus"

    def socket_path(self, daemon: str) -> Path:
        """Return a daemon's Unix socket."""
        return self.folder / "run" / f"{daemon}.sock"

    def port(self, daemon: str) -> int:
        """Return a daemon's TCP port on loopback."""
        return self.first_port + ("mariadbd", "slurmdbd", "slurmctld", *NODES).index(daemon)

    def environment(self) -> dict[str, str]:
        """Return the variables by which commands find the cluster."""
        path = os.environ["PATH"]
        if not path.startswith(f"{self.bin_folder}:"):
            path = f"{self.bin_folder}:{path}"
        return {"SLURM_CONF": str(self.slurm_conf_path), "PATH": path}


def configuration(layout: Layout, password: str) -> dict[str, str]:
    """Return each file of Slurm's configuration by its name."""
    return {
        "slurm.conf": _slurm_conf(layout),
        "slurmdbd.conf": _slurmdbd_conf(layout, password),
        "gres.conf": (
            f"AutoDetect=off\nName=gpu File={layout.gpu_folder}/gpu[0-{GPUS_PER_NODE - 1}]\n"
        ),
        # Slurm 22.05 loads a plugin for cgroups even where nothing uses it; this one mounts
        # nothing.
        "cgroup.conf": "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n",
    }


def _slurm_conf(layout: Layout) -> str:
    host = socket.gethostname().partition(".")[0]  # slurmctld and slurmd must find their own name
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={layout.port(node)} "
        f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_MIB_PER_NODE} Gres=gpu:{GPUS_PER_NODE}"
        for node in NODES
    )
    return f"""\
ClusterName=aiayn
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={layout.port("slurmctld")}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A job that is queued again starts when its first credential has expired: by default after 120 s.
AuthInfo=socket={layout.socket_path("munged")},cred_expire={CREDENTIAL_SECONDS}
StateSaveLocation={layout.folder}/state
SlurmdSpoolDir={layout.folder}/spool/%n
SlurmctldPidFile={layout.folder}/run/slurmctld.slurm.pid
SlurmdPidFile={layout.folder}/run/slurmd.%n.slurm.pid
SlurmctldLogFile={layout.log_folder}/slurmctld.log
SlurmdLogFile={layout.log_folder}/slurmd.%n.log
# No cgroups: they would be mounts. Jobs are known by their processes' parents.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
# A node is what its line says, whatever the machine has.
SlurmdParameters=config_overrides
SlurmdTimeout={SLURMD_TIMEOUT_SECONDS}
# A node that was lost and answers again is used again.
ReturnToService=2
KillWait={KILL_WAIT_SECONDS}
JobRequeue=1
SchedulerParameters=bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={layout.port("slurmdbd")}
# Not a password here, but the munge socket by which slurmctld proves itself to slurmdbd.
AccountingStoragePass={layout.socket_path("munged")}
AccountingStorageTRES=gres/gpu
{nodes}
PartitionName={DEFAULT_PARTITION} Nodes=ALL Default=YES PriorityTier=10 PreemptMode=OFF DefaultTime=60
PartitionName={REQUEUED_PARTITION} Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE DefaultTime=60
PartitionName={GRACE_PARTITION} Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 DefaultTime=60
PartitionName={CANCELLED_PARTITION} Nodes=ALL PriorityTier=1 PreemptMode=CANCEL DefaultTime=60
PartitionName={URGENT_PARTITION} Nodes=ALL PriorityTier=20 PreemptMode=OFF DefaultTime=60
PartitionName={SHORT_PARTITION} Nodes=ALL PriorityTier=10 PreemptMode=OFF DefaultTime=1 MaxTime=1
"""


def _slurmdbd_conf(layout: Layout, password: str) -> str:
    return f"""\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={layout.port("slurmdbd")}
SlurmUser=root
AuthType=auth/munge
AuthInfo={layout.socket_path("munged")}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={layout.port("mariadbd")}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm
PidFile={layout.folder}/run/slurmdbd.slurm.pid
LogFile={layout.log_folder}/slurmdbd.log
"""
