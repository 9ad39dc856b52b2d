"""A pack, of anybody's: admitted if it is whole and free of contradiction, else refused with the reason."""

import json
import lzma
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.errors import StateError
from aiayn.paths import corpus_record, evaluation_record
from aiayn.records import ScoreRecords, read_record, write_record
from aiayn.spec.system import CorpusSpec
from analysis.scoring.score import default_metrics, lines_sha256, score_hypotheses
from paper_tables.render.from_logs import make_tables_from_logs
from paper_tables.tools.admit import Admission, check_pack
from paper_tables.tools.pack import pack_scale
from tests.logs.factory import TrainingText
from tests.records_factory import Site, make_site, run_of, write_left, write_translations

CHECKOUT = Path(__file__).resolve().parents[2]
REFERENCES = ["Ein Hund rennt durch den hohen Schnee .", "Zwei Frauen sitzen auf einer alten Bank im Park ."]
RUN = run_of("demo_en_de", "base", 2)


def references_of(corpus: CorpusSpec, testset: str) -> list[str]:
    return REFERENCES


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two seeds of base with logs as fairseq prints them, and the scores that their translations have."""
    asked: dict[str, object] = {"en_de_systems": ["base"], "en_fr_systems": [], "ablation_systems": []}
    asked |= {"has_baselines": False, "row_testsets": ["demo_test"], "probed_alpha": 1.4}
    made = make_site(tmp_path_factory.mktemp("made"), **asked)
    write_left(made)
    for seed in (1, 2):
        log = TrainingText(final_nll_bits=2 + seed / 10).changed(seed=seed, max_update=3000)
        path = Path(made.scale.runs_folder) / run_of("demo_en_de", "base", seed) / "train.log"
        path.write_text(log.text(), encoding="utf-8")
    for evaluation in made.experiment.evaluations:
        lines = [REFERENCES[0], REFERENCES[1].replace("alten", "neuen" if evaluation.seed == 1 else "roten")]
        write_translations(made, evaluation, "\n".join(lines) + "\n")
        scores = score_hypotheses(
            lines, REFERENCES, metrics=default_metrics("de", False), target_language="de", testset=evaluation.testset
        )
        path = evaluation_record(made.results_folder, "demo", "score", evaluation)
        write_record(msgspec.structs.replace(read_record(path, ScoreRecords), scores=scores), path)
    for name in made.experiment.corpora:
        path = corpus_record(made.results_folder, "demo", "fetch", name)
        content = path.read_text(encoding="utf-8").replace("de" * 32, lines_sha256(REFERENCES))
        path.write_text(content, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def whole(site: Site) -> Path:
    output = site.results_folder.parent / "packed"
    return pack_scale(site.scale, site.results_folder, output, max_bytes=10**6, config_folder=site.config_folder).folder


@pytest.fixture
def packed(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "theirs" / "demo"))


def check(site: Site, folder: Path) -> Admission:
    return check_pack(folder, references_of, config_folder=site.config_folder)


def render_again(site: Site, folder: Path) -> None:
    """Make the tables fit the files, as one who edits a pack with care would."""
    again = folder.parent / "again"
    make_tables_from_logs([folder], again, site.config_folder)
    for path in (again / "demo").rglob("*"):
        place = folder / path.relative_to(again / "demo")
        if path.is_file() and place.exists() and "figures" not in place.parts:
            shutil.copyfile(path, place)


def test_a_whole_pack_is_admitted_however_low_its_result_and_the_doctor_stands_beside_it(
    site: Site, packed: Path
) -> None:
    admission = check(site, packed)
    assert admission.refusals == ()
    assert (admission.num_runs, admission.num_asked, admission.num_scores) == (2, 2, 8)
    assert [RUN in text for text in admission.findings] == [False, True]  # the demo's own base is another system
    scores = [json.loads(path.read_bytes())["scores"] for path in packed.glob("score/*/*/*/last5/*.json")]
    assert max(score["value"] for one in scores for score in one if score["metric"] == "bleu_sacre_13a") < 90


Spoil = Callable[[Path], object]  # of a pack's folder
TRAIN, LOG, ATTEMPTS = "train/demo_en_de/base/seed2.json", f"runs/{RUN}/train.log.xz", f"runs/{RUN}/attempts.jsonl"
SCORE, TEXT = (f"{place}/demo_en_de/base/seed2/last5/demo_test.{suffix}"
               for place, suffix in (("score", "json"), ("decode", "txt.xz")))  # fmt: skip
OTHER_TEXT = "\n".join([*REFERENCES, ""]).encode()


def edited(place: str, change: Callable[[bytes], bytes]) -> Spoil:
    """Return what changes the content of a file of the pack."""
    return lambda folder: (folder / place).write_bytes(change((folder / place).read_bytes()))


def replaced(place: str, old: str, new: str) -> Spoil:
    return edited(place, lambda content: content.replace(old.encode(), new.encode()))


def edited_json(place: str, change: Callable[[Any], object]) -> Spoil:
    """Return what changes the values of a record, in place."""

    def encoded(content: bytes) -> bytes:
        values = json.loads(content)
        change(values)
        return json.dumps(values).encode()

    return edited(place, encoded)


def leave_out_a_run(folder: Path) -> None:
    shutil.rmtree(folder / "runs" / RUN)
    (folder / TRAIN).unlink()
    for verb in ("decode", "score", "perplexity"):
        shutil.rmtree(folder / verb / "demo_en_de/base/seed2")


def change_a_translation_and_its_digests(folder: Path) -> None:
    (folder / TEXT).write_bytes(lzma.compress(OTHER_TEXT))
    digest = {"hypotheses_sha256": lines_sha256(REFERENCES)}
    edited_json(TEXT.replace(".txt.xz", ".json"), lambda values: values.update(digest))(folder)
    edited_json(SCORE, lambda values: [one.update(digest) for one in values["scores"]])(folder)


def raise_a_score(values: Any) -> None:
    values["scores"][0]["value"] += 0.5


def first_half(log: bytes) -> bytes:
    lines = lzma.decompress(log).split(b"\n")
    return lzma.compress(b"\n".join(lines[: len(lines) // 2]))


def swap_logs(folder: Path) -> None:
    shutil.copyfile(folder / LOG.replace("seed2", "seed1"), folder / LOG)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (leave_out_a_run, "demo_en_de base seed 2: asked for, and not there"),
        (edited_json(SCORE, raise_a_score), rf"{SCORE}: bleu_\w+ [\d.]+, but its translations give"),
        (
            edited_json("score/demo_en_de/base/seed2/last1/demo_dev-alpha1.4.json",
                        lambda values: values["scores"][0].update(brevity_penalty=0.5)),
            r"demo_dev-alpha1.4.json: brevity penalty 0.5 in bleu_\w+, but its translations give",
        ),
        (edited(LOG, first_half), rf"{LOG}: cut: it ends at update [\d,]+, its record has 3,000"),
        (edited(LOG, lambda log: log[:-20]), rf"{LOG}: not whole: "),
        (edited(LOG, lambda log: log + b"\0" * 20_000_000), r"2\d\.\d\d MB, expected 20 MB at most"),  # xz allows it
        (swap_logs, "train.log.xz: of seed 1, its record is of 2"),
        (edited(TEXT, lambda _: lzma.compress(OTHER_TEXT)), r"demo_test.txt.xz: sha256 [0-9a-f]{64}, but the scores"),
        (
            change_a_translation_and_its_digests,
            r"bleu_\w+ [\d.]+, but its translations give 100, and 9 other definitions; score",
        ),
        (
            edited_json("asked.json", lambda values: values.update(seeds=[1])),
            "no table of scale demo asks for base on demo_en_de, seed 2",
        ),
        (
            edited_json(TRAIN, lambda values: values["provenance"].update(commit="unknown")),
            "commit 'unknown' is none; name the commit",
        ),
        (edited_json(TRAIN, lambda values: values["hardware"].update(cpu="")), "its record names no CPU"),
        (lambda folder: (folder / ATTEMPTS).unlink(), f"runs/{RUN}: no attempts.jsonl"),
        (replaced(ATTEMPTS, "3000", "2000"), "ends with done at update 2000; expected done at update 3000"),
        (lambda folder: (folder / SCORE).unlink(), "last5/demo_test.json: no such record"),
        (
            lambda folder: (folder / "runs" / RUN / "model.pt").write_bytes(b"\x80\x04."),
            "model.pt: a link, or no record, log, text or table",
        ),
        (
            replaced("fetch/demo_en_de/record.json", lines_sha256(REFERENCES), "0" * 64),
            "references of demo_test of sha256 0{64}, published",
        ),
    ],
)  # fmt: skip
def test_what_is_incomplete_or_contradicts_itself_is_refused(
    spoil: Spoil, reason: str, site: Site, packed: Path
) -> None:
    spoil(packed)
    render_again(site, packed)
    refusals = check(site, packed).refusals
    assert any(re.search(reason, text) for text in refusals), refusals


def test_a_table_that_does_not_follow_from_the_files_is_refused(site: Site, packed: Path) -> None:
    replaced("tables/table2.md", "27.3", "27.4")(packed)
    assert any("tables/table2.md: not what its files give" in text for text in check(site, packed).refusals)


def test_a_shipped_model_is_of_a_packed_run_and_no_pickle(site: Site, packed: Path) -> None:
    for run in (RUN, "another-run"):
        (packed / "models" / run).mkdir(parents=True)
        for name in ("model.safetensors", "config.json", "NOTICE", "model.pt"):
            (packed / "models" / run / name).write_bytes(b"x")
    found = [text.partition(":")[0].rpartition("/models/")[2] for text in check(site, packed).refusals]
    assert found == ["another-run/model.pt", f"{RUN}/model.pt", "another-run"]


def test_a_folder_that_is_no_pack_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "demo").mkdir()
    with pytest.raises(StateError, match=r"demo: no pack; expected a folder named for its scale"):
        check_pack(tmp_path / "demo", references_of)
    assert main(["pack", "--check", str(tmp_path / "demo")]) == 1
    assert "`aiayn pack` makes one" in capsys.readouterr().err


def test_the_verb_prints_each_reason_and_ends_with_1(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", "--check", str(packed)]) == 1  # the demo's own references are others
    shown = capsys.readouterr()
    assert "2 of 2 trainings, 8 translations scored again" in shown.out
    assert re.search(r"refused: .*references of demo_test of sha256 [0-9a-f]{64}, published", shown.out)
    assert "reason(s) above; mend them" in shown.err


def test_a_pack_is_made_or_judged(tmp_path: Path) -> None:
    for flags in ([], ["--check", str(tmp_path), "--configfile", "workflow/config/demo.yaml"]):
        with pytest.raises(SystemExit) as stopped:
            main(["pack", *flags])
        assert stopped.value.code == 2


def test_ci_admits_by_the_same_verb() -> None:
    usage = subprocess.run([CHECKOUT / ".ci" / "admit"], capture_output=True, text=True, check=False)
    assert (usage.returncode, usage.stderr) == (2, "usage: .ci/admit FOLDER\n")
    assert 'pack --check "$1"' in (CHECKOUT / ".ci" / "admit").read_text(encoding="utf-8")
