"""A shipped corpus is read unchanged, and a line of another form is refused at its place."""

import hashlib
from pathlib import Path

import pytest

from aiayn.data.text.lines import read_shipped
from aiayn.errors import CorpusError
from aiayn.spec.system import ShippedSource, read_corpus


def test_the_toy_is_the_tutorials_six_pairs_and_eight_sentences() -> None:
    corpus = read_corpus("toy_en_es")
    assert isinstance(corpus.source, ShippedSource)
    pairs_by_split = read_shipped(corpus.source)
    assert corpus.testsets == ("toy_six", "toy_eight")
    assert pairs_by_split["toy_six"] == pairs_by_split["train"]
    sizes = {split: len(pairs) for split, pairs in pairs_by_split.items()}
    assert sizes == corpus.source.num_pairs_by_split == {"train": 6, "toy_six": 6, "toy_eight": 8}
    trained = [pair for pair in pairs_by_split["toy_eight"] if pair in pairs_by_split["train"]]
    assert len(trained) == 6
    unseen = [pair[0] for pair in pairs_by_split["toy_eight"] if pair not in trained]
    assert unseen == ["i love cat", "this is a cat"]


@pytest.mark.parametrize("line", ["train\tgood morning", "train\ta\tb\tc", ""])
def test_a_line_without_split_source_and_target_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"train\ta\tb\n{line}\n", encoding="utf-8")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    source = ShippedSource(file=str(path), sha256=sha256, num_pairs_by_split={"train": 2})
    with pytest.raises(CorpusError, match=r"pairs\.tsv:2: .*expected split, source and target"):
        read_shipped(source)
