"""`aiayn search RUN` decodes the dev set for each pair of beam and alpha, and prints one table."""

import re
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.data.sources.fetch import fetch_corpus
from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.decode.decode import Translator, decode_split
from aiayn.paths import average_record, corpus_record
from aiayn.records import BinarizedCorpus, RawCorpus, read_record, write_record
from aiayn.scoring.score import score_hypotheses
from aiayn.spec.system import CorpusSpec, read_system
from tests.engine.tiny_spec import CORPUS


@pytest.fixture(autouse=True, scope="module")
def _raw_text(results: Path) -> None:
    """Put the corpus's text next to the other results."""
    raw_path = corpus_record(results, "demo", "fetch", CORPUS.name)
    write_record(fetch_corpus(CORPUS, mirror=None, record_path=raw_path), raw_path)


@pytest.fixture(autouse=True)
def _tiny_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the tests' corpus known to the project."""

    def read_corpus(name: str) -> CorpusSpec:
        assert name == CORPUS.name
        return CORPUS

    monkeypatch.setattr("analysis.tools.verbs.search.read_corpus", read_corpus)


def expected_value(results: Path, data: BinarizedCorpus, *, beam_size: int, alpha: float) -> float:
    """Return the score of one pair in the definition of the tables, by the parts of `decode` and
    `score`.
    """
    decoding = msgspec.structs.replace(
        read_system("base", "demo").decoding, beam_size=beam_size, length_penalty_alpha=alpha
    )
    path = average_record(results, "demo", CORPUS.name, "base", 1, "last2").with_suffix(".pt")
    hypotheses, _ = decode_split(
        Translator(path, Path(data.folder), decoding, device="cpu"), "valid"
    )
    lines = [detokenise(" ".join(hypothesis.pieces), CORPUS) for hypothesis in hypotheses]
    raw = read_record(corpus_record(results, "demo", "fetch", CORPUS.name), RawCorpus)
    references = list(read_lines(raw.pair_by_split["tiny_dev"].path_by_language["de"]))
    (score,) = score_hypotheses(
        lines,
        references,
        metrics=["bleu_tok_compound_split"],
        target_language="de",
        hypotheses_sha256="",
        testset="tiny_dev",
    )
    return score.value


def test_each_pair_is_decoded_and_scored_as_the_tables_are(
    results: Path, data: BinarizedCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(results.rglob("*"))
    pairs = ["--beam-sizes", "1", "4", "--alphas", "0", "0.6"]
    assert main(["search", "uninter", *pairs, "--results", str(results)]) == 0
    printed = capsys.readouterr().out
    rows = [re.findall(r"[0-9.]+", line) for line in printed.splitlines() if line[:1] == "|"][2:]
    assert [row[0] for row in rows] == ["1", "4"]
    for beam_size, *values in rows:
        for alpha, value in zip((0.0, 0.6), values, strict=True):
            expected = expected_value(results, data, beam_size=int(beam_size), alpha=alpha)
            assert value == f"{expected:.2f}"
    assert "|beam:ROW|lenpen:gnmt|alpha:COLUMN|stop:tensor2tensor|maxlen:1x+50" in printed
    assert (
        "\n\nbleu_tok_compound_split (percent) on tiny_dev, 19 lines; uninterrupted, last2\n"
        in printed
    )
    assert sorted(results.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["big"], 1, "big is no finished run; candidates:\n  "),
        (["uninter", "--alphas", "0.6", "nan"], 2, "--alphas has nan; expected 0 or more"),
        (["uninter", "--beam-sizes", "500"], 1, "beam_size is 500; expected 1 to"),
        (["uninter", "--average", "last9"], 1, "no average last9; there is ['last2']"),
    ],
)
def test_what_cannot_be_is_refused(
    results: Path,
    arguments: list[str],
    exit_code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["search", *arguments, "--results", str(results)]) == exit_code
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


def test_a_corpus_whose_text_is_gone_is_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = corpus_record(results, "demo", "fetch", CORPUS.name)
    away = record.rename(tmp_path / "away.json")
    try:
        assert main(["search", "uninter", "--results", str(results)]) == 1
    finally:
        away.rename(record)
    assert "fetch/tiny_en_de/record.json: no such record" in capsys.readouterr().err
