"""`aiayn where`: a cell is followed to its run, and what is missing or contradictory is named."""

import json
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.errors import CorpusError, UsageError
from aiayn.packed import packed_bytes
from aiayn.paths import average_record, corpus_record, train_record
from aiayn.provenance import Provenance
from aiayn.records import CheckpointRecord, Hypotheses, RawCorpus, TrainRecord, read_record, write_record
from aiayn.runs.attempts import LOG_NAME
from paper_tables.questions.where import CellTrace, SeedTrace, find_cell, last_update_line, read_named_cells, trace_cell
from paper_tables.questions.where_text import render_list, render_trace
from tests.records_factory import (
    EIGHT_P100,
    PROVENANCE,
    Site,
    make_site,
    run_of,
    write_attempt,
    write_everything,
    write_training,
    write_translations,
)

CELL = "table2:base:bleu_en_de"
LOG = (
    '2026-01-01 10:00:01 | INFO | train_inner | {"epoch": 1, "loss": "9.9", "num_updates": "2900"}\n'
    '2026-01-01 10:00:02 | INFO | train_inner | {"epoch": 1, "loss": "1.5", "num_updates": "3000"}\n'
    '2026-01-01 10:00:03 | INFO | valid | {"epoch": 1, "valid_num_updates": "3000"}\n'
    "2026-01-01 10:00:04 | INFO | fairseq_cli.train | done training in 1.0 seconds\n"
)


def made(command: str, commit: str = "0123456789abcdef", *, is_dirty: bool = False) -> Provenance:
    return msgspec.structs.replace(PROVENANCE, command=command, commit=commit, is_dirty=is_dirty)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Everything of the demo, and of base's first seed the run's folder, data and translations too."""
    site = make_site(tmp_path, seeds=[1, 2])
    write_everything(site)
    folder = write_attempt(site, "demo_en_de", "base", 1, update=3000, outcome="done")
    (folder / LOG_NAME).write_text(LOG, encoding="utf-8")
    evaluation = next(
        one
        for one in site.experiment.evaluations
        if (one.corpus, one.system, one.seed, one.role) == ("demo_en_de", "base", 1, "test")
    )
    write_translations(site, evaluation)
    run = run_of("demo_en_de", "base", 1)
    averaged = CheckpointRecord(
        provenance=made("aiayn average --last 5"), run=run, average="last5", path=Path("gone.pt"),
        averaged_updates=[2900, 3000], tensors_sha256="a" * 64,
    )  # fmt: skip
    write_record(averaged, average_record(site.results_folder, "demo", "demo_en_de", "base", 1, "last5"))
    raw = RawCorpus(provenance=made("aiayn fetch --corpus demo_en_de"), corpus="demo_en_de", pair_by_split={})
    write_record(raw, corpus_record(site.results_folder, "demo", "fetch", "demo_en_de"))
    return site


def trace(site: Site, cell: str = CELL) -> CellTrace:
    return trace_cell(read_named_cells()[cell], site.scale, site.results_folder, site.config_folder)


def first_seed(site: Site, cell: str = CELL) -> SeedTrace:
    return trace(site, cell).seeds[0]


def test_a_cell_is_followed_to_run_attempt_log_line_digests_and_commands(site: Site) -> None:
    seed = first_seed(site)
    assert (seed.run, seed.status, seed.value) == (run_of("demo_en_de", "base", 1), "finished", 70.1)
    assert [(one.attempt, one.last_update, one.outcome) for one in seed.attempts] == [(1, 3000, "done")]
    assert seed.log_line is not None
    assert (seed.log_line.number, seed.log_line.update) == (2, 3000)
    assert seed.hypotheses is not None
    assert seed.hypotheses.state == "as recorded"
    assert seed.checkpoint is not None
    assert (seed.checkpoint.tensors_sha256, seed.checkpoint.is_there) == ("a" * 64, False)
    assert [step.verb for step in seed.steps] == ["train", "average", "decode", "score"]
    assert seed.version_by_package == {"torch": "2.13.0"}
    assert seed.problems == []


def test_the_text_shows_it_all_and_the_commands_in_the_order_of_the_stages(site: Site) -> None:
    text = render_trace(trace(site))
    assert text.startswith(f"{CELL}, scale demo\n====")
    for part in (
        "printed      27.3 (both editions)",
        "definition   bleu_tok_compound_split",
        "Seed 1: 70.10, finished",
        "Seed 2: 70.20, finished",
        "job 1, commit 0123), to 2026-01-01T10:02:00+00:00, update 3,000, done: out of memory",
        f"{LOG_NAME}:2, update 3,000",
        f"sha256 of its tensors {'a' * 64}",
        "versions     Python 3.11.0, torch 2.13.0",
        "scale demo is not the paper's: no reproduction of the printed number",
    ):
        assert part in text
    _, _, repeat = text.partition("To repeat\n")
    commands = ["git checkout 0123456789abcdef", "aiayn fetch", "aiayn average"]
    places = [repeat.index(command) for command in commands]
    assert places == sorted(places)
    assert repeat.count("git checkout") == 1


def test_a_missing_run_folder_is_named(site: Site) -> None:
    second = trace(site).seeds[1]
    assert second.attempts == []
    assert any("no log line of an update; its folder is gone" in problem for problem in second.problems)


def test_missing_running_and_failed_runs_are_shown(tmp_path: Path) -> None:
    site = make_site(tmp_path, seeds=[1, 2, 3])
    write_attempt(site, "demo_en_de", "base", 2, update=300, outcome="failed")
    write_attempt(site, "demo_en_de", "base", 3, update=700)
    found = trace(site)
    assert [seed.status for seed in found.seeds] == ["missing", "failed", "running"]
    assert [seed.value for seed in found.seeds] == [None, None, None]
    text = render_trace(found)
    assert "Seed 1: no value, missing" in text
    assert "failed: out of memory" in text
    assert "update 700" in text
    assert "nothing was run yet: `snakemake` makes it" in text


def test_changed_or_deleted_translations_are_named(site: Site) -> None:
    (translations,) = (site.results_folder / "demo/decode/demo_en_de/base/seed1").rglob("*.txt")
    translations.write_text("kein Haus\n", encoding="utf-8")
    assert f"{translations}: changed; rerun `decode`" in first_seed(site).problems
    packed = translations.with_name(f"{translations.name}.xz")
    packed.write_bytes(packed_bytes(translations.read_bytes())[:-30])
    translations.unlink()
    assert f"{packed}: changed; rerun `decode`" in first_seed(site).problems
    packed.unlink()
    assert f"{translations}: missing; rerun `decode`" in first_seed(site).problems


def test_different_commits_and_uncommitted_changes_are_named(site: Site) -> None:
    path = average_record(site.results_folder, "demo", "demo_en_de", "base", 1, "last5")
    averaged = read_record(path, CheckpointRecord)
    provenance = made("aiayn average", "fedcba9876543210", is_dirty=True)
    write_record(msgspec.structs.replace(averaged, provenance=provenance), path)
    problems = "\n".join(first_seed(site).problems)
    assert "commits (train 0123456789ab, average fedcba987654" in problems
    assert "changes that are in no commit" in problems
    assert "git checkout fedcba9876543210  # and changes in no commit" in render_trace(trace(site))


def test_records_of_different_runs_are_named(site: Site) -> None:
    path = train_record(site.results_folder, "demo", "demo_en_de", "base", 1)
    train = read_record(path, TrainRecord)
    write_record(msgspec.structs.replace(train, run="demo_en_de-base-seed1-ffffffff"), path)
    assert any("runs (train " in problem for problem in first_seed(site).problems)


def test_scores_of_other_translations_are_reported(site: Site) -> None:
    path = next((site.results_folder / "demo/decode/demo_en_de/base/seed1").rglob("*.json"))
    decoded = read_record(path, Hypotheses)
    write_record(msgspec.structs.replace(decoded, hypotheses_sha256="b" * 64), path)
    assert "scored are other translations than those recorded; rerun `score`" in first_seed(site).problems


def test_perplexity_needs_no_translations(site: Site) -> None:
    seed = first_seed(site, "table3:base:ppl_dev")
    assert (seed.value, seed.hypotheses) == (1.5, None)
    assert [step.verb for step in seed.steps] == ["train", "perplexity"]
    assert any(problem.startswith("average: no record") for problem in seed.problems)


def test_parameters_steps_and_costs_are_of_the_training_alone(site: Site) -> None:
    assert first_seed(site, "table3:base:params").value == 412_345
    assert first_seed(site, "table3:base:train_steps").value == 3000
    on_cpu = first_seed(site, "table2:base:flops_en_de")
    assert on_cpu.value is None
    assert "no cost by footnote 5: no GPU, or one that is not in hardware.yaml" in on_cpu.problems
    write_training(site, "demo_en_de", "base", 1, hardware=EIGHT_P100, wall_seconds=12 * 3600)
    assert first_seed(site, "table2:base:flops_en_de").value == pytest.approx(3.3e18, rel=0.01)  # as printed


def test_the_last_update_is_found_past_validation_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / LOG_NAME
    path.write_bytes(LOG.encode() + b'| train_inner | {"epoch": 2, "num_upd')
    line = last_update_line(path)
    assert line is not None
    assert (line.number, line.update) == (2, 3000)
    path.write_text("nothing yet\n", encoding="utf-8")
    assert last_update_line(path) is None
    packed = path.with_name(f"{LOG_NAME}.xz")
    packed.write_bytes(packed_bytes(LOG.encode())[:-30])
    with pytest.raises(CorpusError, match=r"train\.log\.xz: not a whole \.xz file"):
        last_update_line(packed)


def test_a_number_that_the_editions_print_differently_is_one_cell_with_both() -> None:
    cells = read_named_cells()
    assert cells["table2:big:bleu_en_fr"].printed_by_edition == {"neurips2017": "41.0", "arxiv": "41.8"}
    assert "table2:big:bleu_en_fr" in render_list(cells)


def test_variants_and_replications_are_cells_too() -> None:
    cells = read_named_cells()
    assert cells["variants:pre_norm:bleu_dev"].average == "last1"
    assert cells["replications:revisit_tiny:value"].printed_by_edition == {"": "41.02"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table2:base:bleu_en_ed", "has the columns bleu_en_de, bleu_en_fr, .*did you mean 'table2:base:bleu_en_de"),
        ("table2:bse:bleu_en_de", "table2 has the rows base, big; did you mean 'table2:base:bleu_en_de"),
        ("table5:base:bleu_en_de", "the tables are table2, table3, replications, variants, .*did you mean 'table2"),
        ("base", "expected table:row:column, as table2:base:bleu_en_de; see `aiayn where --list`"),
    ],
)
def test_a_wrong_name_is_refused_with_similar_names(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_cell(name, read_named_cells())


def test_a_system_that_the_scale_does_not_run_is_refused_with_those_that_it_runs(site: Site) -> None:
    with pytest.raises(UsageError, match="table3_a_h1 is not run on demo_en_de at scale demo, which runs base, big"):
        trace(site, "table3:table3_a_h1:bleu_dev")


def test_the_command_prints_text_or_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["where", CELL, "--scale", "demo"]) == 0
    assert "Seed 1: no value, missing" in capsys.readouterr().out
    assert main(["where", CELL, "--scale", "demo", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cell"]["name"] == CELL
    assert answer["seeds"][0]["status"] == "missing"
    assert main(["where", "--list"]) == 0
    assert capsys.readouterr().out.startswith(CELL)


def test_no_cell_and_no_such_scale_are_mistakes_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where"]) == 2
    assert main(["where", CELL, "--scale", "deno"]) == 2
    assert "expected one of demo, multi30k, paper" in capsys.readouterr().err
