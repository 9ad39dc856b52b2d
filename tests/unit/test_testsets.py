"""Public references come from sacreBLEU's data sets; nothing is downloaded here."""

from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.dataset import DATASETS

from aiayn.errors import FetchError, ScoreError
from aiayn.testsets import SACREBLEU_NAME_BY_TESTSET, public_references


def test_references_are_split_at_line_feeds_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "references"
    path.write_bytes("eins\u2028zwei\r\ndrei\n".encode())
    asked: list[tuple[str, str]] = []

    def reference_files(name: str, language_pair: str) -> list[str]:
        asked.append((name, language_pair))
        return [str(path)]

    monkeypatch.setattr(sacrebleu, "get_reference_files", reference_files)
    assert public_references("newstest2014", "en-de") == ["eins\u2028zwei\r", "drei"]
    assert public_references("wmt17", "en-de") == ["eins\u2028zwei\r", "drei"]
    assert asked == [("wmt14/full", "en-de"), ("wmt17", "en-de")]


def test_the_papers_test_sets_are_known_to_sacrebleu_in_both_languages() -> None:
    for name in SACREBLEU_NAME_BY_TESTSET.values():
        assert {"en-de", "en-fr"} <= set(DATASETS[name].langpairs)


def test_an_unknown_test_set_names_the_next_step() -> None:
    with pytest.raises(
        ScoreError, match="test set 'demo_test': not a public one; give its references with --references"
    ):
        public_references("demo_test", "en-de")


def test_a_test_set_of_other_languages_is_refused() -> None:
    with pytest.raises(ScoreError, match=r"test set 'newstest2014': not published for en-nl; it has .*en-de"):
        public_references("newstest2014", "en-nl")


@pytest.mark.parametrize("error", [OSError("no route to host"), SystemExit(1)])
def test_a_failed_download_names_the_cache(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, language_pair: str) -> list[str]:
        raise error

    monkeypatch.setattr(sacrebleu, "get_reference_files", fail)
    with pytest.raises(
        FetchError, match=r"test set 'newstest2014' \(wmt14/full\): sacreBLEU could not download it .*cache"
    ):
        public_references("newstest2014", "en-de")
