"""Partitions, nodes, accounts and MinJobAge of a Slurm, for trainings and for CPU rules, each seen to pass and fail."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.launch.cluster_spec import read_cluster
from aiayn.preflight.checks import CHECKOUT, Check, render_checks
from aiayn.preflight.cpu_rules import read_cpu_rules
from aiayn.preflight.slurm import check_slurm
from aiayn.preflight.slurm_answers import read_gpus, read_minutes, read_tres
from aiayn.spec import CONFIG_FOLDER
from tests.fake_cluster import CONFIG, ENFORCED, NODE, FakeCluster
from tests.golden_files import check_golden

PLAIN = msgspec.structs.replace(
    read_cluster("plain"), partition="gpu", gpu_type="h100", memory_gb_per_node=200, constraint="fast"
)
CPU_NODE = "c1|cpu|up|1-00:00:00|32|64000|(null)|new|idle"
ASSOCIATIONS = "ours|physics||normal,long|||||\nours|maths||normal|||||\n"


def slurm(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster | None = None, profile: Path | None = None,
    **changes: Any,
) -> dict[str, Check]:  # fmt: skip
    """Return the checks by name, of several of a name the worst; `changes` are to the cluster's file."""
    (cluster or FakeCluster()).install(folder / "bin", monkeypatch)
    ranks = {"OK": 0, "WARN": 1, "FAIL": 2}
    checks = check_slurm(msgspec.structs.replace(PLAIN, **changes), profile)
    return {check.name: check for check in sorted(checks, key=lambda check: ranks[check.outcome])}


def test_a_cluster_that_has_what_is_asked_for_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(config=CONFIG + "AccountingStorageEnforce = none\n")
    checks = slurm(tmp_path, monkeypatch, cluster)
    assert {name: check.outcome for name, check in checks.items()} == {
        "partition": "OK", "nodes": "OK", "CPU rules": "OK", "account": "OK", "limits": "OK", "MinJobAge": "OK",
    }  # fmt: skip
    assert checks["partition"].evidence == "gpu: up, limit 2,880 minutes, 1 nodes"
    assert checks["nodes"].evidence == "1 of 1 nodes have 8 h100 GPUs, 32 CPUs, 200 GB, fast, 1 needed a training"
    assert checks["CPU rules"].evidence.endswith("config.yaml fit on gpu: up to 16000 MB, 16 CPUs, 720 minutes")
    assert slurm(tmp_path, monkeypatch, partition=None)["partition"].outcome == "OK"  # the default one, marked *


@pytest.mark.parametrize(
    ("name", "nodes", "changes", "evidence"),
    [
        ("partition", NODE, {"partition": "big"}, "partition 'big': there is none; sinfo shows gpu"),
        ("partition", NODE.replace("*", ""), {"partition": None}, "a default partition: there is none"),
        ("partition", NODE.replace("|up|", "|inact|"), {}, "gpu: not up"),
        ("partition", NODE.replace("2-00:00:00", "12:00:00"), {}, "limit 720 minutes, 1 nodes, below time_limit_min"),
        ("nodes", NODE.replace("idle", "drained*"), {}, "0 of 1 nodes have .*1 is drained"),
        ("nodes", NODE, {"gpu_type": "a100"}, "1 with 0 such GPUs"),
        ("nodes", NODE.replace(":8(", ":4("), {}, "1 with 4 such GPUs"),
        ("nodes", NODE, {"cpus_per_rank": 9}, "1 with 64 CPUs"),
        ("nodes", NODE, {"memory_gb_per_node": 300}, "1 with 256000 MB"),
        ("nodes", NODE.replace("256000", "204799"), {}, "1 with 204799 MB"),  # 200 GB are 204800 to Slurm
        ("nodes", NODE, {"constraint": "old"}, "1 without feature old"),
        ("nodes", NODE, {"num_nodes": 2}, "1 of 1 nodes have .*, 2 needed a training"),
        ("slurm", "", {}, "sinfo does not answer"),
        ("slurm", "half an answer", {}, "sinfo does not answer"),
    ],
)
def test_a_cluster_that_lacks_something_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nodes: str, changes: dict[str, Any], evidence: str
) -> None:
    check = slurm(tmp_path, monkeypatch, FakeCluster(nodes=nodes), **changes)[name]
    assert check.outcome == "FAIL"
    assert re.search(evidence, check.evidence), check.evidence
    assert check.next_step


def test_a_machine_without_slurms_commands_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster().install(tmp_path, monkeypatch)
    for name in ("sbatch", "srun", "squeue", "scancel", "scontrol"):
        (tmp_path / name).unlink()
    (check,) = check_slurm(PLAIN)
    assert (check.outcome, check.evidence) == ("FAIL", "not on PATH: sbatch, srun, squeue, scancel, scontrol")


def write_profile(folder: Path, text: str) -> Path:
    """Write a profile of these settings, of a Slurm executor unless they say otherwise; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = text if "executor:" in text else f"executor: slurm\n{text}"
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    return folder


TRAIN = "set-resources: {train: {launcher: slurm}}\n"


@pytest.mark.parametrize(
    ("nodes", "profile", "evidence", "next_step"),
    [
        (  # an unknown partition of all rules, of one rule
            NODE, "default-resources: {slurm_partition: cpu}\n" + TRAIN,
            "average, .*, vectors: partition 'cpu': there is none; sinfo shows gpu",
            "name one of gpu in .*config.yaml:2 .default-resources.slurm_partition.",
        ),
        (
            NODE, "set-resources: {train: {launcher: slurm}, decode: {slurm_partition: big}}\n",
            "^decode: partition 'big': there is none", "set-resources.decode.slurm_partition",
        ),
        (NODE.replace("*", ""), TRAIN, "vectors: a default partition: there is none", "default-resources.slurm_part"),
        (NODE.replace("|up|", "|inact|"), TRAIN, "vectors: partition gpu is not up", "ask when it is up"),
        (NODE.replace("idle", "drained"), TRAIN, "no node of partition gpu is usable: drained", "ask when they are"),
        (  # each of time, memory, threads, GPUs
            NODE.replace("2-00:00:00", "12:00:00"),
            "set-resources:\n  train: {launcher: slurm}\n  clean:\n    runtime: 721\n",
            "^clean: runtime is 721 minutes, partition gpu allows 720",
            "set 720 or less in .*config.yaml:5 .set-resources.clean.runtime., or another partition",
        ),
        (
            NODE.replace("256000", "15999"), "default-resources:\n  mem_mb: 16000\n" + TRAIN,
            "vectors: mem_mb: 16000 asked for, the largest node of partition gpu has 15999",
            "set 15999 or less in .*config.yaml:3 .default-resources.mem_mb.",
        ),
        (
            NODE.replace("|64|", "|8|"), TRAIN, "clean: threads: 16 asked for, the largest node of partition gpu has 8",
            r"set 8 or less in .*set-threads.clean, to be added; the rule has 16, rules/prepare.smk:\d+",
        ),
        (
            NODE, "set-threads:\n  decode: 65\n" + TRAIN, "^decode: threads: 65 asked for, the largest .* has 64",
            "set 64 or less in .*config.yaml:3 .set-threads.decode.",
        ),
        (
            NODE, "set-resources: {train: {launcher: slurm}, decode: {gres: 'gpu:a100:1'}}\n",
            "^decode: a100 GPUs: 1 asked for, the largest node of partition gpu has 0", "set-resources.decode.gres",
        ),
        (  # one node has the memory, another the CPUs
            f"{NODE.replace('256000', '1000')}\n{NODE.replace('n1', 'n2').replace('|64|', '|1|')}",
            "default-resources: {mem_mb: 2000}\nset-threads: {score: 2, clean: 1, segment: 1, binarize: 1}\n" + TRAIN,
            "^score: no one node of partition gpu has all of 2000 MB, 2 CPUs, 0 GPUs .n1 with 1000 MB; n2 with 1 CPUs",
            "ask for less in .*default-resources.mem_mb",
        ),
        (
            NODE, "default-resources: {constraint: old}\n" + TRAIN,
            "constraint: no node of partition gpu has feature old", "default-resources.constraint",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_no_node_can_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: str, profile: str, evidence: str, next_step: str
) -> None:
    FakeCluster(nodes=nodes).install(tmp_path / "bin", monkeypatch)
    checks = check_slurm(PLAIN, write_profile(tmp_path / "mine", profile))
    found = [check for check in checks if check.name == "CPU rules" and re.search(evidence, check.evidence)]
    assert [check.outcome for check in found] == ["FAIL"], checks
    assert re.search(next_step, found[0].next_step), found[0].next_step


def test_rules_run_on_nodes_of_their_own_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 CPUs and 64,000 MB; its limit is a day, in which `1d` fits and 25 hours do not."""
    cluster = FakeCluster(nodes=f"{NODE}\n{CPU_NODE}\n")
    text = (
        "default-resources: {slurm_partition: cpu, mem: 64GB, runtime: 1d}\nset-resources: {train: {launcher: slurm}}\n"
    )
    fits = slurm(tmp_path, monkeypatch, cluster, write_profile(tmp_path / "mine", text))["CPU rules"]
    assert fits.outcome == "OK"
    assert fits.evidence.endswith("fit on cpu: up to 64000 MB, 16 CPUs, 1,440 minutes")
    for less, more in (("1d", "25h"), ("64GB", "65GB")):
        profile = write_profile(tmp_path / "mine", text.replace(less, more))
        assert slurm(tmp_path, monkeypatch, cluster, profile)["CPU rules"].outcome == "FAIL"
    either = write_profile(tmp_path / "mine", text.replace("1d", "25h").replace("cpu,", "'cpu,gpu',"))
    assert slurm(tmp_path, monkeypatch, cluster, either)["CPU rules"].outcome == "OK"


def test_no_rule_gets_more_threads_than_the_profiles_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(nodes=NODE.replace("|64|", "|8|"))
    assert slurm(tmp_path, monkeypatch, cluster, write_profile(tmp_path, TRAIN))["CPU rules"].outcome == "FAIL"
    few = write_profile(tmp_path, f"cores: 8\n{TRAIN}")
    assert slurm(tmp_path, monkeypatch, cluster, few)["CPU rules"].outcome == "OK"


def test_a_profile_is_looked_for_where_snakemake_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    absent = slurm(tmp_path, monkeypatch, profile=Path("mine"))["profile"]
    assert (absent.outcome, "mine/config.yaml and " in absent.evidence) == ("FAIL", True)
    assert "CPU rules" not in slurm(tmp_path, monkeypatch, profile=Path("mine"))
    write_profile(tmp_path / ".config" / "snakemake" / "mine", TRAIN)
    assert "profile" not in slurm(tmp_path, monkeypatch, profile=Path("mine"))
    write_profile(tmp_path / "mine", "executor: slurm\nexecutor: slurm\n")
    torn = slurm(tmp_path, monkeypatch, profile=Path("mine"))["profile"]
    assert (torn.outcome, "mine/config.yaml:2: 'executor' is given twice" in torn.evidence) == ("FAIL", True)
    (tmp_path / "mine" / "config.v8+.yaml").write_text(f"executor: slurm\n{TRAIN}", encoding="utf-8")
    assert slurm(tmp_path, monkeypatch, profile=Path("mine"))["CPU rules"].evidence.count("config.v8+.yaml") == 1


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        (f"executor: local\n{TRAIN}", "executor is local: CPU rules would run where snakemake does"),
        ("jobs: 3", "launcher of train is not set: trainings would run where snakemake does"),
        (f"default-resources: {{mem_mb: attempt * 4000}}\n{TRAIN}", "default-resources.mem_mb. 'attempt \\* 4000'"),
        (f"set-threads: {{clean: many}}\n{TRAIN}", "set-threads.clean. 'many'"),
        (f"__use_yte__: true\n{TRAIN}", "__use_yte__: a template"),
    ],
)
def test_what_of_a_profile_cannot_be_known_is_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, evidence: str
) -> None:
    check = slurm(tmp_path, monkeypatch, profile=write_profile(tmp_path, text))["profile"]
    assert check.outcome == "WARN"
    assert re.search(evidence, check.evidence), check.evidence


def test_a_profile_may_list_what_another_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "default-resources: [mem_mb=300000]\nset-resources: ['train:launcher=slurm', 'clean:mem_mb=5']\n"
    check = slurm(tmp_path, monkeypatch, profile=write_profile(tmp_path, text))["CPU rules"]
    assert check.outcome == "FAIL"
    assert "mem_mb: 300000 asked for" in check.evidence
    assert "clean" not in check.evidence


def test_the_rules_and_their_threads_are_those_of_the_rule_files(tmp_path: Path) -> None:
    threads_by_rule = {rule.name: rule.num_threads for rule in read_cpu_rules()}
    commands = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "workflow/rules").glob("*.smk"))
    assert len(threads_by_rule) + commands.count("localrule: True") == commands.count("    shell:\n")
    assert {"train", "fetch", "tables"} & set(threads_by_rule) == set()
    (tmp_path / "x.smk").write_text(
        'rule one:\n    shell:\n        "x"\n\n\nrule few:\n    threads: 3\n    shell:\n        "x"\n\n\n'
        'rule some:\n    threads: lambda wildcards: 4\n    shell:\n        "x"\n\n\n'
        'rule here:\n    localrule: True\n    shell:\n        "x"\n\n\nrule target:\n    input: "y"\n',
        encoding="utf-8",
    )
    found = {rule.name: (rule.num_threads, rule.place.rpartition(":")[2]) for rule in read_cpu_rules(tmp_path)}
    assert found == {"one": (1, "1"), "few": (3, "7"), "some": (None, "13")}


def test_account_and_qos_are_compared_where_accounting_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(associations: str, **changes: Any) -> tuple[str, str]:
        check = slurm(tmp_path, monkeypatch, FakeCluster(associations=associations), **changes)["account"]
        return check.outcome, check.evidence

    assert checked(ASSOCIATIONS, account="physics", qos="long") == ("OK", "account physics, qos long")
    assert checked(ASSOCIATIONS, account="art") == ("FAIL", "a training: account 'art' is not among yours")
    assert checked(ASSOCIATIONS, qos="short") == ("FAIL", "a training: qos 'short' is not among yours")
    assert checked(ASSOCIATIONS, account="maths", qos="long") == ("FAIL", "a training: qos 'long' is not among yours")
    assert checked(ASSOCIATIONS.replace("ours|maths", "theirs|maths"), account="maths")[0] == "FAIL"
    assert checked("", account="art") == ("WARN", "account art: not known, accounting does not answer")
    assert checked("\n", account="art") == ("WARN", "account art: not known, accounting lists none for you")
    assert checked("") == ("OK", "Slurm's defaults for account and QoS: not known, accounting does not answer")


def test_account_and_qos_of_the_profile_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(text: str) -> Check:
        profile = write_profile(tmp_path, f"{text}\n{TRAIN}")
        return slurm(tmp_path, monkeypatch, FakeCluster(associations=ASSOCIATIONS), profile)["account"]

    right = checked("default-resources: {slurm_account: physics}\nslurm-qos: long")
    assert (right.outcome, right.evidence) == ("OK", "account physics, qos long")
    account, qos = checked("default-resources: {slurm_account: art}"), checked("slurm-qos: short")
    assert (account.outcome, "vectors: account 'art' is not among" in account.evidence) == ("FAIL", True)
    assert re.search("one of maths, physics in .*config.yaml:2 .default-resources.slurm_account.", account.next_step)
    assert (qos.outcome, "vectors: qos 'short' is not among yours" in qos.evidence) == ("FAIL", True)
    assert re.search("one of long, normal in .*config.yaml:2 .slurm-qos.", qos.next_step)


@pytest.mark.parametrize(
    ("config", "outcome", "evidence"),
    [
        ("MinJobAge               = 300 sec\n", "OK", "for 300 s"),
        ("MinJobAge               = 180 sec\n", "OK", "for 180 s"),
        ("MinJobAge               = 0 sec\n", "OK", "for ever"),
        ("MaxJobCount = 10000\nMinJobAge = 179 sec\n", "FAIL", "for 179 s, below the 180 s between two looks"),
        ("", "WARN", "not known, `scontrol show config` does not tell"),
    ],
)
def test_a_slurm_that_forgets_ended_jobs_between_two_looks_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, outcome: str, evidence: str
) -> None:
    check = slurm(tmp_path, monkeypatch, FakeCluster(config=config))["MinJobAge"]
    assert (check.outcome, evidence in check.evidence) == (outcome, True), check


def test_slurms_times_gpus_and_resources_are_read_as_it_prints_them() -> None:
    times = {"1-02:03:30": 1563.5, "2-0": 2880.0, "02:00:00": 120.0, "30:00": 30.0, "45": 45.0, "infinite": None}
    assert {text: read_minutes(text) for text in times} == times
    gres = {"(null)": {}, "gpu:8": {"": 8}, "gpu:h100:4(S:0),gpu:a100:2,shard:9": {"h100": 4, "a100": 2}}
    assert {text: read_gpus(text) for text in gres} == gres
    tres = {
        "": {},
        "cpu=64,gres/gpu=8,node=2": {"cpu": 64, "gres/gpu": 8, "node": 2},
        "gres/gpu:h100=4,mem=1.5T": {"gres/gpu:h100": 4, "mem": 1.5 * 1024 * 1024},
        "mem=64000M": {"mem": 64000},
    }
    assert {text: read_tres(text) for text in tres} == tres


def test_a_cluster_of_many_faults_is_shown_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 12-hour CPU partition of small nodes, and a QoS of 4 GPUs."""
    monkeypatch.chdir(tmp_path)
    FakeCluster(
        nodes=f"{NODE}\nc1|cpu|up|12:00:00|8|15000|(null)|new|idle\n",
        config=CONFIG + ENFORCED,
        associations="ours|physics||normal|normal||||\n",
        qos="normal|DenyOnLimit|12:00:00||gres/gpu=4||50|\n",
    ).install(tmp_path / "bin", monkeypatch)
    write_profile(
        tmp_path / "mine",
        "jobs: 100\ndefault-resources:\n  slurm_partition: cpu\n  mem_mb: 4000\n  runtime: 120\nset-resources:\n"
        "  train:\n    launcher: slurm\n  segment:\n    mem_mb: 16000\n  baselines:\n    runtime: 12h\n"
        "  binarize:\n    runtime: 721\n"
        "set-threads:\n  clean: 8\n  decode: 9\n  binarize: 8\n",
    )
    check_golden("preflight/slurm.txt", render_checks(check_slurm(PLAIN, Path("mine"))))


def test_the_command_takes_a_profile_and_leaves_out_rules_that_a_config_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No system of the demo starts from vectors, so that 300 GB for them are no fault; for `score` they are one."""
    monkeypatch.chdir(tmp_path)
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    demo = ["preflight", "--configfile", str(CONFIG_FOLDER / "demo.yaml"), "--offline", "--json"]

    def rules_check(rule: str) -> Check:
        write_profile(tmp_path / "mine", f"set-resources: {{train: {{launcher: slurm}}, {rule}: {{mem_mb: 300000}}}}\n")
        main([*demo, "--launcher", "slurm", "--profile", "mine"])
        checks = msgspec.convert(json.loads(capsys.readouterr().out), list[Check])
        (check,) = [check for check in checks if check.name == "CPU rules"]
        return check

    assert (rules_check("vectors").outcome, rules_check("score").outcome) == ("OK", "FAIL")
    assert main([*demo, "--profile", "mine"]) == 2
    assert "--profile mine: nothing looks at it on this machine" in capsys.readouterr().err
