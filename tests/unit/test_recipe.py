"""A recipe says where its text is published and how that is checked. What contradicts itself is
refused by its line.
"""

import pytest

from aiayn.data.sources.fetch import files_of
from aiayn.data.sources.testsets import SACREBLEU_NAME_BY_TESTSET
from aiayn.data.text.clean import reason_to_drop
from aiayn.spec.corpus import ArchiveSource
from aiayn.spec.system import CONFIG_FOLDER, CleanSpec, read_corpus

RECIPES = ("t2t", "wmt14_en_de", "wmt14_en_fr", "wmt16_en_de_google")


def source_of(name: str) -> ArchiveSource:
    """Return where a recipe's text comes from."""
    source = read_corpus(name).source
    assert isinstance(source, ArchiveSource)
    return source


def test_the_recipes_are_those_of_kind_archives() -> None:
    names = sorted(path.stem for path in (CONFIG_FOLDER / "corpora").glob("*.yaml"))
    assert [name for name in names if isinstance(read_corpus(name).source, ArchiveSource)] == list(
        RECIPES
    )


def test_the_published_counts_add_up() -> None:
    sums = {
        name: sum(int(archive.num_lines) for archive in source_of(name).joined().values())
        for name in ("wmt14_en_de", "wmt14_en_fr")
    }
    assert sums == {"wmt14_en_de": 4_520_620, "wmt14_en_fr": 40_842_333}


@pytest.mark.parametrize("name", RECIPES)
def test_one_file_is_described_alike_in_both_languages_recipes(name: str) -> None:
    files = {
        packed.name: packed
        for corpus in ("wmt14_en_de", "wmt14_en_fr")
        for archive in source_of(corpus).archive_by_name.values()
        for packed in archive.file_by_format.values()
    }
    for archive in source_of(name).archive_by_name.values():
        for packed in archive.file_by_format.values():
            assert files[packed.name] == packed


@pytest.mark.parametrize("name", RECIPES)
def test_every_joined_archive_but_one_has_more_than_one_address(name: str) -> None:
    # The end of one server must not end a recipe.
    num_urls = {
        archive: sum(len(packed.path_by_place) for packed in spec.file_by_format.values())
        for archive, spec in source_of(name).joined().items()
    }
    assert {archive for archive, count in num_urls.items() if count < 2} <= {"europarl_v7_de_en"}


@pytest.mark.parametrize("name", RECIPES)
def test_the_test_sets_are_the_papers_with_the_filtered_one_at_hand(name: str) -> None:
    corpus, source = read_corpus(name), source_of(name)
    assert corpus.testsets == ("newstest2013", "newstest2014")
    assert {
        testset: published.sacrebleu_name for testset, published in source.testset_by_name.items()
    } == SACREBLEU_NAME_BY_TESTSET
    num_filtered = {"en-de": 2737, "en-fr": 3003}[corpus.language_pair]
    assert [one.num_lines for one in source.testset_by_name.values()] == [3000, 3003, num_filtered]


def test_a_mirror_has_a_folder_of_each_places_name() -> None:
    source = source_of("wmt14_en_de")
    archive = source.archive_by_name["news_commentary_v9"]
    files = files_of(source, archive, "file:///data/")
    assert [file.url for file in files] == [  # the mirror's files first
        "file:///data/statmt/wmt14/training-parallel-nc-v9.tgz",
        "file:///data/huggingface/wmt14/resolve/main/training-parallel-nc-v9.tgz",
        "file:///data/huggingface/wmt14/resolve/main-zip/training-parallel-nc-v9.zip",
        "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "https://huggingface.co/datasets/wmt/wmt14/resolve/main/training-parallel-nc-v9.tgz",
        "https://huggingface.co/datasets/wmt/wmt14/resolve/main-zip/training-parallel-nc-v9.zip",
    ]
    assert files_of(source, archive, None) == files[3:]


def test_null_limits_drop_empty_sides_alone() -> None:
    unlimited = CleanSpec(max_words=None, max_length_ratio=None, deduplicate=False)
    assert reason_to_drop("a " * 5000, "b", unlimited) is None
    assert reason_to_drop("a", " ", unlimited) == "empty_side"
