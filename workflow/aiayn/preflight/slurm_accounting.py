"""What accounting says of a user: accounts, QoS, and the limits that go with them; None where it does not answer.

Names and formats of fields are those of sacctmgr(1), Slurm 22.05.
"""

import getpass
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from aiayn.preflight.asked_job import AskedJob
from aiayn.preflight.checks import Check, doubtful, failed, passed
from aiayn.preflight.slurm_answers import ask, ask_table, read_count, read_minutes, read_tres

ASSOCIATION_FORMAT = "cluster,account,partition,qos,defaultqos,maxwall,maxtres,maxsubmit,maxjobs"
QOS_FORMAT = "name,flags,maxwall,maxtres,maxtrespu,grptres,maxsubmitjobspu,maxjobspu"
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(?P<name>\S+)", re.MULTILINE)
_ENFORCED = re.compile(r"^AccountingStorageEnforce\s*=\s*(?P<words>\S+)", re.MULTILINE)
_PARTITION_QOS = re.compile(r"^PartitionName=(?P<name>\S+).*?\sQoS=(?P<qos>\S+)", re.MULTILINE)
LIMITING_WORDS = {"limits", "safe", "all"}  # of AccountingStorageEnforce: `safe` sets `limits`, too


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a QoS or an association allows; None, or a resource that is not named, is no limit of it.

    `num_by_tres_by_kind` holds Slurm's MaxTRES (a job), MaxTRESPU (a user) and GrpTRES (all users together).
    """

    owner: str
    flags: list[str] = []
    max_minutes: float | None = None
    num_by_tres_by_kind: dict[str, dict[str, float]] = {}
    max_submitted: int | None = None
    max_running: int | None = None


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """The user's right to an account, of one partition or of all where `partition` is ''."""

    account: str
    partition: str
    qos: list[str]
    default_qos: str
    limits: Limits


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """All that was asked. `enforced` are the words of AccountingStorageEnforce, None if they are not known."""

    enforced: list[str] | None
    associations: list[Association] | None
    default_account: str | None
    limits_by_qos: dict[str, Limits] | None
    qos_by_partition: dict[str, str]

    @property
    def enforces_no_limits(self) -> bool:
        """Whether Slurm is known to look at no limit."""
        return self.enforced is not None and not LIMITING_WORDS & set(self.enforced)

    def association_of(self, job: AskedJob, partitions: Sequence[str]) -> Association | None:
        """Return the association under which a job would run, None if it is not known."""
        account = job.account or self.default_account
        mine = [one for one in self.associations or [] if one.account == account]
        return next((one for one in mine if one.partition in partitions), None) or next(
            (one for one in mine if not one.partition), None
        )

    def qos_of(self, job: AskedJob, partitions: Sequence[str]) -> str | None:
        """Return a job's QoS: the one asked for, the association's default, or its only one; None if not known."""
        association = self.association_of(job, partitions)
        if job.qos or association is None:
            return job.qos
        only = association.qos[0] if len(association.qos) == 1 else None
        return association.default_qos or only


def read_accounting(config: str) -> Accounting:
    """Ask accounting; `config` is what `scontrol show config` prints, '' if it does not answer."""
    cluster, enforced = _CLUSTER.search(config), _ENFORCED.search(config)
    associations = default_account = limits_by_qos = None
    if shutil.which("sacctmgr"):
        associations = _read_associations(cluster["name"].lower() if cluster else None)
        limits_by_qos = _read_qos()
        default_account = _default_account(associations or [])
    partitions = ask(["scontrol", "--oneliner", "show", "partition"]) or ""
    return Accounting(
        enforced=re.split(r"[,|]", enforced["words"].lower()) if enforced else None,
        associations=associations,
        default_account=default_account,
        limits_by_qos=limits_by_qos,
        qos_by_partition={
            found["name"]: found["qos"] for found in _PARTITION_QOS.finditer(partitions) if found["qos"] != "N/A"
        },
    )


def _sacctmgr(*words: str, form: str) -> list[list[str]] | None:
    command = ["sacctmgr", "--noheader", "--parsable2", "show", *words, f"format={form}"]
    return ask_table(command, 1 + form.count(","))


def _read_associations(cluster: str | None) -> list[Association] | None:
    """Return this user's associations on this cluster; limits of the accounts above are in them."""
    lines = _sacctmgr("associations", f"user={getpass.getuser()}", form=ASSOCIATION_FORMAT)
    if lines is None:
        return None
    associations = []
    for where, account, partition, qos, default_qos, wall, tres, submitted, running in lines:
        if cluster and where and where.lower() != cluster:
            continue
        limits = Limits(
            owner=f"your association with {account}",
            max_minutes=read_minutes(wall),
            num_by_tres_by_kind={"MaxTRES": read_tres(tres)},
            max_submitted=read_count(submitted),
            max_running=read_count(running),
        )
        names = [name.removeprefix("+") for name in qos.split(",") if name and not name.startswith("-")]
        associations.append(
            Association(account=account, partition=partition, qos=names, default_qos=default_qos, limits=limits)
        )
    return associations


def _default_account(associations: Sequence[Association]) -> str | None:
    """Return the account of who names none."""
    accounts = list(dict.fromkeys(one.account for one in associations))
    if len(accounts) < 2:
        return accounts[0] if accounts else None
    lines = _sacctmgr("user", getpass.getuser(), form="defaultaccount") or []
    return lines[0][0] if len(lines) == 1 and lines[0][0] in accounts else None


def _read_qos() -> dict[str, Limits] | None:
    lines = _sacctmgr("qos", form=QOS_FORMAT)
    if lines is None:
        return None
    return {
        name: Limits(
            owner=f"QoS {name}",
            flags=flags.lower().split(","),
            max_minutes=read_minutes(wall),
            num_by_tres_by_kind={
                "MaxTRES": read_tres(of_job), "MaxTRESPU": read_tres(of_user), "GrpTRES": read_tres(of_all)
            },
            max_submitted=read_count(submitted),
            max_running=read_count(running),
        )
        for name, flags, wall, of_job, of_user, of_all, submitted, running in lines
    }  # fmt: skip


def check_accounts(jobs: Sequence[AskedJob], accounting: Accounting) -> list[Check]:
    """Compare account and QoS of each job with this user's associations, where accounting answers."""
    asked: dict[tuple[str, str, str | None], list[AskedJob]] = defaultdict(list)
    for job in jobs:
        for subject, value in (("account", job.account), ("qos", job.qos)):
            if value is not None:
                asked[subject, value, job.account].append(job)
    listed = dict.fromkeys(f"{subject} {value}" for subject, value, _ in asked)
    words = ", ".join(listed) or "Slurm's defaults for account and QoS"
    known = accounting.associations
    if not known:
        evidence = f"{words}: not known, accounting {'does not answer' if known is None else 'lists none for you'}"
        if asked:
            return [doubtful("account", evidence, "ask the administrator, or submit one job")]
        return [passed("account", evidence)]
    checks = []
    for (subject, value, account), askers in asked.items():
        accounts = {one.account for one in known}
        of_account = [one for one in known if account not in accounts or one.account == account]
        mine = accounts if subject == "account" else {name for one in of_account for name in one.qos}
        if value not in mine:
            names = ", ".join(job.name for job in askers)
            advice = f"name one of {', '.join(sorted(mine))} in {askers[0].place_by_subject[subject]}"
            checks.append(failed("account", f"{names}: {subject} {value!r} is not among yours", advice))
    return checks or [passed("account", words)]
