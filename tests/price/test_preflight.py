"""Every check before a start is seen to pass and to fail: mirrors, space, versions, config.

The checks of Slurm are in test_preflight_slurm.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.experiment import read_experiment
from aiayn.paths import corpus_record
from aiayn.records import write_record
from aiayn.spec.corpus import ArchiveSource, ArchiveSpec, CorpusSpec, PackedFile, PublicTestset
from aiayn.spec.system import CONFIG_FOLDER, CleanSpec, SubwordSpec, run_name
from aiayn.stages import STAGE_VERSIONS
from aiayn.train import torch_builds
from analysis.price.plan import Plan
from analysis.price.preflight import checks as preflight
from analysis.price.preflight.checks import Check
from analysis.price.preflight.mirrors import check_mirrors
from tests.fake_cluster import FakeCluster
from tests.planned_scales import BASE, PAPER, PLAIN, leave_free
from tests.price.plans import plan_of
from tests.records_factory import BINARIZED
from tests.workflow.loopback_server import loopback_server

NUM_BYTES = 1000


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of the paper on 8 P100."""
    return plan_of(PAPER, tmp_path_factory.mktemp("nothing"))


def outcomes(checks: list[Check]) -> dict[str, str]:
    """Return the worst outcome by name of check."""
    worst: dict[str, str] = {}
    for check in checks:
        if worst.get(check.name) != "FAIL":
            worst[check.name] = check.outcome
    return worst


@pytest.fixture
def server() -> Iterator[str]:
    """Return the URL of a server with an archive below /whole and a shorter one below /short."""
    with loopback_server() as served:
        served.serve("/whole/a.tgz", b"x" * NUM_BYTES)
        served.serve("/short/a.tgz", b"x" * (NUM_BYTES - 1))
        yield served.url


def corpus_at(*base_urls: str) -> dict[str, CorpusSpec]:
    """Return a corpus of one archive that has a public place at each URL, and test sets of
    sacreBLEU.
    """
    base_url_by_place = {f"place{index}": url for index, url in enumerate(base_urls)}
    packed = PackedFile(
        num_bytes=NUM_BYTES,
        checksum=f"md5:{'0' * 32}",
        path_by_place=dict.fromkeys(base_url_by_place, "a.tgz"),
    )
    source = ArchiveSource(
        licence="free",
        archives=["a"],
        base_url_by_place=base_url_by_place,
        archive_by_name={
            "a": ArchiveSpec(
                num_lines=9,
                member_by_language={"en": "en", "de": "de"},
                file_by_format={"tgz": packed},
            )
        },
        testset_by_name={
            name: PublicTestset(sacrebleu_name=published, num_lines=1)
            for name, published in {"newstest2013": "wmt13", "newstest2014": "wmt14/full"}.items()
        },
    )
    corpus = CorpusSpec(
        name="c",
        description="a corpus",
        language_pair="en-de",
        source=source,
        dev_testset="newstest2013",
        test_testset="newstest2014",
        clean=CleanSpec(max_words=None, max_length_ratio=None, deduplicate=False),
        subword=SubwordSpec(vocabulary_size=10, joint=True),
    )
    return {"c": corpus}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of sacreBLEU's with the archives of both test sets."""
    from sacrebleu.dataset import DATASETS

    for name in ("wmt13", "wmt14/full"):
        folder = tmp_path / "cache" / name / "raw"
        folder.mkdir(parents=True)
        (folder / f"{name.replace('/', '_')}.{Path(DATASETS[name].data[0]).name}").write_bytes(
            b"archive"
        )
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "cache"))
    return tmp_path / "cache"


def look(
    corpora: dict[str, CorpusSpec],
    folder: Path,
    *,
    mirror: str | None = None,
) -> Check:
    """Return the check of a corpus's files; there is exactly one."""
    (check,) = check_mirrors(corpora, mirror=mirror, archives_folder=folder)
    return check


@pytest.mark.usefixtures("cache")
def test_an_archive_that_a_place_has_is_found(tmp_path: Path, server: str) -> None:
    check = look(corpus_at(f"{server}/nothing", f"{server}/whole"), tmp_path)
    place = server.removeprefix("http://")
    assert (check.outcome, check.evidence) == ("OK", f"3 files: 1 at {place}, 2 are here")


@pytest.mark.usefixtures("cache")
def test_an_archive_of_another_size_or_of_no_place_fails(tmp_path: Path, server: str) -> None:
    short = look(corpus_at(f"{server}/short"), tmp_path)
    assert short.outcome == "FAIL"
    assert (
        f"1 of 3 files were not found: a ({server}/short/a.tgz: 999 bytes, published 1000)"
        in short.evidence
    )
    absent = look(corpus_at(f"{server}/nothing"), tmp_path)
    assert f"a ({server}/nothing/a.tgz: status 404)" in absent.evidence
    assert "AIAYN_MIRROR" in absent.next_step
    nobody = look(corpus_at("http://127.0.0.1:9"), tmp_path)
    assert "a (http://127.0.0.1:9/a.tgz: ConnectionError)" in nobody.evidence


@pytest.mark.usefixtures("cache")
def test_an_archive_that_lies_here_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"x" * NUM_BYTES)
    check = look(corpus_at("http://127.0.0.1:9"), tmp_path)
    assert (check.outcome, check.evidence) == ("OK", "3 files: 3 are here")


@pytest.mark.usefixtures("cache")
def test_a_local_mirror_counts_and_its_size_is_compared(tmp_path: Path) -> None:
    mirrored = tmp_path / "mirror" / "place0" / "a.tgz"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(b"x" * NUM_BYTES)
    corpora, mirror = corpus_at("http://127.0.0.1:9"), (tmp_path / "mirror").as_uri()
    found = look(corpora, tmp_path / "archives", mirror=mirror)
    assert (found.outcome, found.evidence) == ("OK", "3 files: 1 on a local mirror, 2 are here")
    mirrored.write_bytes(b"x")
    torn = look(corpora, tmp_path / "archives", mirror=mirror)
    assert "1 bytes, published 1000" in torn.evidence
    mirrored.unlink()
    absent = look(corpora, tmp_path / "archives", mirror=mirror)
    assert "no such file" in absent.evidence
    assert "AIAYN_MIRROR" in absent.next_step


def bytes_of(plan: Plan) -> int:
    """Return all bytes of a plan."""
    results_bytes = plan.averages_bytes + plan.text_bytes + plan.data_bin_bytes
    return plan.runs_bytes + results_bytes + plan.archives_bytes


def space(plan: Plan, folder: Path) -> list[Check]:
    """Return the checks of space of a working directory."""
    scale = msgspec.structs.replace(PAPER, runs_folder=str(folder / "runs"))
    return preflight.check_space(
        plan,
        read_experiment(scale),
        results_folder=folder / "results",
        archives_folder=folder / "archives",
    )


def test_the_plan_must_fit_on_the_disk(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = bytes_of(plan)
    leave_free(needed, monkeypatch)
    assert outcomes(space(plan, tmp_path)) == {"space": "OK"}
    leave_free(needed - 1, monkeypatch)
    (check,) = space(plan, tmp_path)
    assert check.outcome == "FAIL"
    assert (
        f"up to {needed / 1e9:,.1f} GB needed: runs 226.2 GB in {tmp_path / 'runs'}"
        in check.evidence
    )
    assert "--config runs_folder=" in check.next_step


@pytest.mark.parametrize(
    ("path", "is_counted"),
    [
        ("runs/{run}/checkpoints/full_00000001.pt", True),
        ("results/paper/average/wmt14_en_de/base/seed1/last5.pt", True),
        ("results/paper/fetch/wmt14_en_de/train.en", True),
        ("runs/wmt14_en_de-base-seed1-01234567/checkpoints/full_00000001.pt", False),
        ("results/paper/average/wmt14_en_de/another/seed1/last5.pt", False),
    ],
)
def test_only_what_the_plan_counts_is_not_needed_again(
    path: str, is_counted: bool, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand bytes are there, next to a file that vanishes. A run with other settings and a
    system of another config do not count.
    """
    write_record(BINARIZED, corpus_record(tmp_path / "results", "paper", "binarize", "wmt14_en_de"))
    run = run_name(
        corpus="wmt14_en_de",
        system="base",
        seed=1,
        training=BASE,
        data_digest=BINARIZED.digest,
        stage_version=STAGE_VERSIONS["train"],
    )
    file_path = tmp_path / path.format(run=run)
    file_path.parent.mkdir(parents=True, exist_ok=True)
    record_bytes = (tmp_path / "results/paper/binarize/wmt14_en_de/record.json").stat().st_size
    leave_free(bytes_of(plan) - record_bytes - 1000, monkeypatch)
    assert outcomes(space(plan, tmp_path)) == {"space": "FAIL"}
    file_path.write_bytes(b"x" * 1000)
    file_path.with_name("vanished").symlink_to(tmp_path / "nothing")
    assert outcomes(space(plan, tmp_path)) == {"space": "OK" if is_counted else "FAIL"}


def test_packages_are_compared_with_their_pins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (*preflight.NEEDED_PACKAGES, preflight.SLURM_PACKAGE)
    installed, path = dict.fromkeys(names, "1.0"), tmp_path / "constraints.txt"
    monkeypatch.setattr(preflight, "installed_version", installed.get)

    def checked(launcher: str, **others: str) -> tuple[str, str]:
        installed.update(others)
        check = preflight.check_packages(launcher, path)
        return check.outcome, check.evidence

    path.write_text("# pins\ntorch==1.0\nmsgspec==1.0\nnot_here==2.0\n", encoding="utf-8")
    assert checked("slurm") == ("OK", "2 installed, all as constraints.txt pins them")
    assert checked("slurm", torch="1.0+cpu")[0] == "OK"
    assert checked("slurm", torch="1.1") == ("WARN", "1 other versions: torch 1.1 (pinned 1.0)")
    del installed[preflight.SLURM_PACKAGE]
    assert checked("slurm") == ("FAIL", f"not installed: {preflight.SLURM_PACKAGE}")
    assert checked("local")[0] == "WARN"


@pytest.mark.parametrize(
    ("gpu_type", "name", "outcome", "evidence"),
    [
        ("v100", "config", "FAIL", "base: precision is bf16, which a V100 does not have"),
        (None, "trainings", "OK", "8 ranks each, on 8 A100"),
    ],
)
def test_the_gpu_of_a_clusters_file_is_checked(
    gpu_type: str | None,
    name: str,
    outcome: str,
    evidence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = msgspec.structs.replace(PLAIN, gpu_type=gpu_type)
    monkeypatch.setattr("analysis.price.config.read_cluster", lambda name: cluster)
    monkeypatch.chdir(tmp_path)
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    command = f"preflight --configfile {CONFIG_FOLDER / 'demo.yaml'} --launcher slurm"
    main([*command.split(), "--json", "--config", "precision=bf16"])
    check_by_name = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    found = check_by_name[name]
    assert (found["outcome"], found["evidence"][: len(evidence)]) == (outcome, evidence)
    # All else is checked, too, unless the config is wrong.
    assert ("training" in check_by_name) == (outcome != "FAIL")


@pytest.mark.parametrize(
    ("gpu_of_plan", "here", "outcome", "words"),
    [
        (
            "H100",
            [],
            "OK",
            "for CUDA 13.0: GPUs from compute capability 7.5 on, driver 580 or newer",
        ),
        ("", [["NVIDIA H100", "9.0", "580.65.06"]], "OK", "for CUDA 13.0"),
        (
            "P100",
            [],
            "FAIL",
            "P100 (compute capability 6.0): the installed torch has no kernels for it",
        ),
        (
            "",
            [["NVIDIA H100", "9.0", "550.54"]],
            "FAIL",
            "NVIDIA driver 550, but torch for CUDA 13.0 needs 580",
        ),
    ],
)
def test_gpus_and_driver_are_compared_with_torchs_build(
    gpu_of_plan: str,
    here: list[list[str]],
    outcome: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_builds, "installed_build", lambda: torch_builds.CUDA_BUILDS[0])
    monkeypatch.setattr(preflight, "query_gpus", lambda *fields: here)
    (check,) = preflight.check_torch_build(gpu_of_plan)
    assert check.outcome == outcome
    assert words in check.evidence
    assert ("whl/cu126" in check.next_step) == (outcome == "FAIL")


def test_a_build_of_torch_for_cpus_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_builds, "installed_build", lambda: None)
    assert preflight.check_torch_build("P100") == []
