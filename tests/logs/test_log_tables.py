"""From a folder of logs to tables: what is averaged, what has its own line, what is filled, and the verb."""

from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.__main__ import main
from analysis.logs.folder import judge_folder, metric_of_generation
from analysis.logs.reader import read_log
from analysis.logs.rules import AveragedLine, average_trainings
from analysis.logs.types import GenerationLog
from paper_tables.logs.from_logs import read_rows
from paper_tables.render.from_logs import make_tables_from_logs
from tests.logs.factory import GenerationText, TrainingText, averaging_text, read_folder, write
from tests.logs.test_log_checks import OURS, attempts
from tests.logs.test_log_foreign_files import rows_of_logs, tables_of

ROWS = read_rows(["paper", "demo"])
LAST5 = averaging_text([f"checkpoints/base/checkpoint{n}.pt" for n in range(5)], "checkpoints/base/averaged.pt")
ONE = TrainingText()
TWO = TrainingText(final_nll_bits=3.0).changed(seed=2, save_dir="checkpoints/two")


def lines_of(folder: Path) -> list[AveragedLine]:
    judged = judge_folder(folder, read_folder(folder), ROWS)
    return average_trainings(judged.trainings)[0]


def names_of(lines: list[AveragedLine]) -> list[tuple[str, tuple[str, ...], list[str]]]:
    return [(line.row.system, line.configuration, [one.path for one in line.trainings]) for line in lines]


def cells_of(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the lines of a table that are from logs, by column."""
    return [row for row in tables_of(folder)[name] if next(iter(row.values())).startswith("logs: ")]


def test_two_seeds_of_one_configuration_are_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "b.log": TWO.text()})
    assert names_of(lines_of(folder)) == [("base", (), ["a.log", "b.log"])]
    (row,) = cells_of(folder, "table3")
    assert row["ppl_dev"] == "4.00, 8.00 (n=2)"  # 2 and 3 bits
    page = (tmp_path / "logs-tables" / "report.html").read_text(encoding="utf-8")
    of_ppl = page.partition("<b>ppl_per_subword of base, en-de, from logs</b>")[2].partition("</div>")[0]
    assert [name in of_ppl for name in ("a.log", "b.log")] == [True, True]
    assert (row["train_steps"], row["params"]) == ("100,000 (n=2)", "63.1 (n=2)")
    settings = [row[name] for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls")]
    assert settings == ["6", "512", "2048", "8", "64", "64", "0.1", "0.1"]


def test_another_configuration_has_its_own_line_and_name(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": ONE.text(), "b.log": TWO.changed(adam_eps=1e-08).text()})
    assert names_of(lines_of(tmp_path)) == [("base", (), ["a.log"]), ("base", ("adam_epsilon 1e-08",), ["b.log"])]
    assert [row["label"] for row in cells_of(tmp_path, "table3")] == ["logs: base", "logs: base; adam_epsilon 1e-08"]


def test_an_incomplete_training_fills_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": ONE.text(), "b.log": replace(TWO, is_done=False).text()})
    assert names_of(lines_of(tmp_path)) == [("base", (), ["a.log"])]


def test_a_copy_of_a_log_counts_once(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": ONE.text(), "b.log": ONE.text(), "c.log": TWO.text()})
    assert names_of(lines_of(tmp_path)) == [("base", (), ["a.log", "c.log"])]


def test_a_repeated_seed_is_not_averaged(tmp_path: Path) -> None:
    again = replace(ONE, final_nll_bits=2.5)
    write(tmp_path, {"a.log": ONE.text(), "b.log": again.text(), "c.log": TWO.text()})
    assert names_of(lines_of(tmp_path)) == [
        ("base", (), ["c.log"]),
        ("base", ("seed 1 of a.log",), ["a.log"]),
        ("base", ("seed 1 of b.log",), ["b.log"]),
    ]


def test_versions_are_not_mixed(tmp_path: Path) -> None:
    later = replace(TWO, form="config")
    write(tmp_path, {"a.log": ONE.text(), "b.log": later.text(), "c.log": later.changed(seed=3).text()})
    assert names_of(lines_of(tmp_path)) == [
        ("base", ("version fairseq 0.10",), ["a.log"]),
        ("base", ("version fairseq 1.0.0a0 to 0.12",), ["b.log", "c.log"]),
    ]


def test_languages_are_not_mixed(tmp_path: Path) -> None:
    french = replace(TWO, num_train_pairs=36_000_000).changed(target_lang="fr")
    write(tmp_path, {"a.log": ONE.text(), "b.log": french.text()})
    assert [(line.language_pair, len(line.trainings)) for line in lines_of(tmp_path)] == [("en-de", 1), ("en-fr", 1)]
    assert len(cells_of(tmp_path, "table3")) == 1  # Table 3 is En-De alone


def test_a_generation_fills_table_2_under_the_name_of_its_definition(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": ONE.text(), "gen.log": GenerationText().text(), "average.log": LAST5})
    (row,) = cells_of(tmp_path, "table2")
    assert (row["bleu_en_de"], row["bleu_en_de_ours"]) == ("", "27.31 (n=1)")
    assert row["bleu_en_de_definition"] == "bleu_as_given"
    assert not any("difference" in name for name in row)
    # 43,200 s x 8 GPUs x 9.5e12: the paper's own 3.3e18
    assert row["flops_en_de_ours"] == "3.3e18 (n=1)"
    assert not any("logs" in name or "definition" in name for name in row if "en_fr" in name)  # no log is of French


def test_generations_with_other_settings_are_shown_side_by_side(tmp_path: Path) -> None:
    best = GenerationText(value="26.00", beam_size=5).changed(path="checkpoints/base/checkpoint_best.pt")
    write(tmp_path, {"a.log": ONE.text(), "average.log": LAST5, "g.log": GenerationText().text(), "h.log": best.text()})
    (row,) = cells_of(tmp_path, "table2")
    assert row["bleu_en_de_ours"] == "27.31 (n=1) / 26.00 (n=1)"
    assert row["bleu_en_de_definition"] == "bleu_as_given / bleu_as_given; beam_size 5; average checkpoint_best.pt"


def test_the_bleu_of_validations_fills_table_3_unless_it_is_of_pieces(tmp_path: Path) -> None:
    text = ONE.changed(eval_bleu=True, eval_bleu_detok="moses", eval_bleu_remove_bpe="@@ ",
                       eval_bleu_args='{"beam": 4, "lenpen": 0.6}')  # fmt: skip
    with_bleu = text.text().replace(" | ppl 4.00", " | ppl 4.00 | bleu 25.8")
    (row,) = cells_of(write(tmp_path / "words", {"a.log": with_bleu}), "table3")
    assert (row["bleu_dev"], row["definition"]) == ("25.80 (n=1)", "bleu_sacre_13a_of_detokenised")
    (row,) = cells_of(write(tmp_path / "pieces", {"a.log": with_bleu.replace("'@@ '", "None")}), "table3")
    assert row["bleu_dev"] == "\u2013"
    assert "definition" not in row


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
    write(tmp_path, {f"{name}.log": replace(GenerationText(), score=score).changed(**arguments).text()})
    (found,) = read_log(tmp_path / f"{name}.log").entries
    assert isinstance(found, GenerationLog)
    assert metric_of_generation(found) == metric


def test_two_trainings_in_one_file_are_named_by_their_lines(tmp_path: Path) -> None:
    write(tmp_path, {"both.log": ONE.text() + TWO.text()})
    assert names_of(lines_of(tmp_path)) == [("base", (), ["both.log@1", "both.log@33"])]


def test_our_runs_count_the_seconds_of_all_attempts(tmp_path: Path) -> None:
    ours = TrainingText(form="config", log_format="json").changed(**OURS)
    french = replace(ours, num_train_pairs=36_000_000)
    write(tmp_path, {"run/train.log": french.text(), "run/attempts.jsonl": attempts(("a" * 40,) * 2)})
    (line,) = lines_of(tmp_path)
    assert line.trainings[0].gpu_seconds == 2 * 3600 * 8
    assert line.trainings[0].version == "commit aaaaaaaaaaaa"
    (row,) = cells_of(tmp_path, "table2")
    assert row["flops_en_fr_ours"] == "5.5e17 (n=1)"  # 57,600 s x 9.5e12


def test_the_table_of_logs_says_what_each_is(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.log": ONE.text(),
            "average.log": LAST5,
            "cut.log": ONE.text()[:300] + "\n",
            "foreign.log": ONE.changed(
                encoder_embed_dim=256, decoder_embed_dim=256, dropout=0.3, save_dir="elsewhere"
            ).text(),
            "gen.log": GenerationText().text(),
            "notes.txt": "nothing of fairseq's\n",
        },
    )
    rows = rows_of_logs(tmp_path)
    assert rows["a.log"]["what"] == "training, update 100,000, seed 1, 8 GPUs, simple"
    assert rows["a.log"]["row"] == "base (en-de, paper)"
    assert rows["a.log"]["fills"] == "steps 100,000; num_parameters 63.1 million; ppl_per_subword 4.00"
    assert rows["average.log"]["what"] == "average of 5 checkpoints: checkpoints/base/averaged.pt"
    assert (
        rows["cut.log"]["why_not"]
        == "cut.log:1: the arguments are cut: their brackets do not close; copy the log again"
    )
    assert rows["foreign.log"]["row"] == ("none; nearest table3_c_dmodel256 (paper): p_drop 0.3, not 0.1")
    assert rows["foreign.log"]["fills"] == "\u2013"
    assert rows["gen.log"]["fills"] == "bleu_as_given (test) 27.31"
    assert rows["gen.log"]["row"] == "a.log"
    assert rows["notes.txt"]["why_not"] == "no log of fairseq's"


@pytest.mark.figures
def test_all_files_are_written_also_those_for_machines(tmp_path: Path) -> None:
    write(tmp_path / "logs", {"a.log": ONE.changed(fp16=True).text(), "b.log": TWO.changed(fp16=True).text()})
    output = tmp_path / "out"
    assert make_tables_from_logs([tmp_path / "logs"], output).pages[0] == output / "report.html"
    names = {
        f"tables/{name}.{suffix}" for name in ("table2", "table3", "logs") for suffix in ("md", "tex", "csv", "html")
    }
    written = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    figures = {
        f"figures/curves_by_{x}.{suffix}" for x in ("update", "hours") for suffix in ("tsv", "tex", "svg", "pdf")
    }
    names |= figures | {"figures/figures.tsv"}
    assert written == names | {"report.html", "trainings.tsv", "findings.tsv"}
    findings = (output / "findings.tsv").read_text(encoding="utf-8").split("\n")
    assert findings[1].split("\t")[:3] == ["a.log", "precision", "note"]
    assert "ppl_per_subword\t4.0" in (output / "trainings.tsv").read_text(encoding="utf-8")
    svg = (output / "figures" / "curves_by_update.svg").read_text(encoding="utf-8")
    assert "series: base, en-de" in svg
    assert "seeds: 2" in svg
    assert '<figure id="figure-curves_by_update">' in (output / "report.html").read_text(encoding="utf-8")


def test_a_folder_without_logs_has_the_printed_tables(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = make_tables_from_logs([tmp_path / "empty"], tmp_path / "out").pages[0]
    assert "0 logs" in report.read_text(encoding="utf-8")
    assert "| base | 6 | 512 |" in (report.parent / "tables" / "table3.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["--from-logs", "nowhere"], 1, "nowhere: no such folder"),
        (["--from-logs", ".", "--so-far"], 2, "--so-far: belongs to --configfile"),
        (["--configfile", "x.yaml", "--output", "out"], 2, "--output: belongs to --from-logs"),
        (["--from-logs", ".", "--log-cache", "out"], 2, "--log-cache: logs are read anew each time"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    arguments: list[str], code: int, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["tables", *arguments]) == code
    assert printed in capsys.readouterr().err
