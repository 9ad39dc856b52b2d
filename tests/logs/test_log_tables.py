"""From a folder of logs to tables: what is averaged, what has its own line, what is filled, and the
verb.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.known_good.rows import rows_of
from paper_tables.logs.from_logs import judged_folder
from paper_tables.logs.pages import make_tables_from_logs
from tests.logs.factory import OURS, GenerationText, TrainingText, attempts, write
from tests.logs.test_log_foreign_files import tables_of

ONE = TrainingText()
TWO = TrainingText(final_nll_bits=3.0).changed(seed=2, save_dir="checkpoints/two")


def cells_of(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the lines of a table that are from logs, by column."""
    return [row for row in tables_of(folder)[name] if next(iter(row.values())).startswith("logs: ")]


@pytest.mark.parametrize(
    ("name", "score", "arguments", "metric"),
    [
        ("fairseq", GenerationText().score, {}, "bleu_as_given"),
        ("sacre", "BLEU = {value} 58/33/21/14 (BP = 1.000 ratio = 1.0 hyp_len = 9 ref_len = 9)", {},
         "bleu_sacre_on_tokens"),
        ("sacre", "BLEU = {value} 58/33/21/14 (BP = 1.000 ratio = 1.0 hyp_len = 9 ref_len = 9)", {"tokenizer": "moses"},
         "bleu_sacre_13a"),
    ],
)  # fmt: skip
def test_a_bleu_is_named_by_what_it_was_computed_on(
    tmp_path: Path, name: str, score: str, arguments: dict[str, str], metric: str
) -> None:
    write(
        tmp_path,
        {f"{name}.log": replace(GenerationText(), score=score).changed(**arguments).text()},
    )
    (generation,) = judged_folder(tmp_path).generations
    assert generation.metric == metric


def test_our_runs_count_the_seconds_of_all_attempts(tmp_path: Path) -> None:
    ours = TrainingText(form="config", log_format="json").changed(**OURS)
    french = replace(ours, num_train_pairs=36_000_000)
    write(
        tmp_path, {"run/train.log": french.text(), "run/attempts.jsonl": attempts(("a" * 40,) * 2)}
    )
    ((_, (training,)),) = rows_of(judged_folder(tmp_path).trainings)
    assert training.gpu_seconds == 2 * 3600 * 8
    assert training.version == "commit aaaaaaaaaaaa"
    (row,) = cells_of(tmp_path, "table2")
    assert row["flops_en_fr_ours"] == "5.5e17 (n=1)"  # 57,600 s x 9.5e12


def test_all_files_are_written_also_those_for_machines(tmp_path: Path) -> None:
    write(
        tmp_path / "logs",
        {
            "a.log": replace(ONE, num_epochs=20).changed(fp16=True).text(),
            "b.log": replace(TWO, num_epochs=20).changed(fp16=True).text(),
        },
    )
    output = tmp_path / "out"
    assert make_tables_from_logs([tmp_path / "logs"], output).pages[0] == output / "report.html"
    names = {
        f"tables/{name}.{suffix}"
        for name in ("table2", "table3", "logs")
        for suffix in ("md", "tex", "csv", "html")
    }
    written = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    assert written == names | {"report.html"}
    page = (output / "report.html").read_text(encoding="utf-8")
    assert page.index('id="logs"') < page.index('id="table2"')  # the reader's own logs come first


def test_a_folder_without_logs_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kinds of its files are named, a command to type, and no page is written."""
    folder, output = tmp_path / "papers", tmp_path / "out"
    folder.mkdir()
    (folder / "notes.md").write_text("no log\n", encoding="utf-8")
    assert main(["tables", "--from-logs", str(folder), "--output", str(output)]) == 1
    sentence = capsys.readouterr().err
    assert ".md (1)" in sentence
    assert "`aiayn tables --from-logs paper_tables/measured/multi30k`" in sentence
    assert not output.exists()
