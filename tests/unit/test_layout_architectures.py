"""Recurrence and convolution against attention: seconds beside BLEU, and seconds to what all of them reached."""

import math
from pathlib import Path

import msgspec
import pytest

from aiayn.paths import train_record
from aiayn.records import write_record
from paper_tables.layout import Table
from paper_tables.tables.compared import lay_out_architectures
from tests import laid_out
from tests.laid_out import DAGGER, DASH, results_of
from tests.records_factory import CPU, Site, make_compared_site, write_everything, write_training

# Perplexity on dev by update, of 3,000 updates in all; the worse best one is lstm's 3.5.
PPL_BY_SYSTEM = {"base": {600: 5.0, 1500: 3.25, 3000: 2.0}, "lstm": {600: 9.0, 1500: 4.0, 3000: 3.5}}
SECONDS_BY_SYSTEM = {"base": 100.0, "lstm": 300.0}


def write_logged_training(site: Site, system: str, seed: int, *, cpu: str = "a CPU") -> None:
    """Write a training's record and its log with three validations."""
    hardware = msgspec.structs.replace(CPU, cpu=cpu)
    train = write_training(site, "demo_en_de", system, seed, hardware=hardware, wall_seconds=SECONDS_BY_SYSTEM[system])
    log_path = site.results_folder.parent / f"{system}{seed}.log"
    lines = (
        f'| INFO | valid | {{"valid_nll_loss": "{math.log2(ppl)}", "valid_num_updates": "{update}"}}\n'
        for update, ppl in PPL_BY_SYSTEM[system].items()
    )
    log_path.write_text("".join(lines), encoding="utf-8")
    path = train_record(site.results_folder, "demo", "demo_en_de", system, seed)
    write_record(msgspec.structs.replace(train, log_path=log_path), path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Base and lstm, two seeds each, with logs."""
    made = make_compared_site(tmp_path, architectures=["lstm"])
    write_everything(made)
    for system in PPL_BY_SYSTEM:
        for seed in (1, 2):
            write_logged_training(made, system, seed)
    return made


def table_of(site: Site) -> Table:
    """Return the table of whatever is there."""
    return lay_out_architectures(results_of(site))


def row_of(table: Table, system: str) -> dict[str, str]:
    """Return the texts of a system's row by column, without the mark of the scale."""
    row = laid_out.row_of(table, f"{system} ")
    return {name: text.removesuffix(DAGGER).rstrip() for name, text in row.items()}


def test_each_row_says_size_tokens_seconds_and_machine(site: Site) -> None:
    row = row_of(table_of(site), "lstm")
    assert row["architecture"] == "lstm, N 2, d_model 64, d_ff 97"
    assert (row["params"], row["train_steps"], row["target_tokens"]) == (
        "0.412 (n=2)", "3,000 (n=2)", "1,000,000 (n=2)",
    )  # fmt: skip
    assert row["seconds"] == "300, 300 (n=2)"
    assert row["hardware"] == "a CPU, 1 thread(s)"
    assert row["bleu_dev"] == "70.10, 70.20 (n=2)"
    assert row["bleu_dev_difference"] == "+0.00, +0.00 (n=2)"


def test_seconds_to_reach_are_to_the_best_that_every_system_reached(site: Site) -> None:
    """3.5 is lstm's best, at its end; base is below it at update 1,500 of 3,000, half of its 100 seconds."""
    table = table_of(site)
    assert row_of(table, "lstm")["seconds_to_reach"] == "300, 300 (n=2)"
    assert row_of(table, "base")["seconds_to_reach"] == "50, 50 (n=2)"
    assert any("reached in training, by fairseq's own log: seed 1: 3.50; seed 2: 3.50." in n.text for n in table.notes)


def test_a_seed_without_a_log_has_no_seconds_to_reach(site: Site) -> None:
    (site.results_folder.parent / "lstm2.log").unlink()
    assert row_of(table_of(site), "base")["seconds_to_reach"] == "50 (n=1 of 2)"


def test_without_any_log_they_are_a_dash_and_a_note_says_why(site: Site) -> None:
    for path in site.results_folder.parent.glob("*.log"):
        path.unlink()
    table = table_of(site)
    assert row_of(table, "base")["seconds_to_reach"] == DASH
    assert any(note.text.startswith("Seconds to reach need finished trainings") for note in table.notes)


def test_a_note_says_that_seconds_of_different_machines_do_not_compare(site: Site) -> None:
    assert not any("do not compare" in note.text for note in table_of(site).notes)
    write_logged_training(site, "lstm", 2, cpu="another CPU")
    table = table_of(site)
    assert any("their seconds do not compare" in note.text for note in table.notes)
    assert row_of(table, "lstm")["hardware"] == "a CPU, 1 thread(s); another CPU, 1 thread(s)"


def test_an_untrained_architecture_is_named_as_missing(site: Site) -> None:
    for seed in (1, 2):
        train_record(site.results_folder, "demo", "demo_en_de", "lstm", seed).unlink()
    row = row_of(table_of(site), "lstm")
    assert (row["seconds"], row["hardware"], row["bleu_dev"]) == ("missing", DASH, "missing")
