"""The quirks of WMT14's real files, one test each: from archives of that layout, or the real test sets, to clean text.

Numbers of lines and characters were counted on the real files.
"""

import gzip
import io
import os
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiayn.data.sources.joining import append_archive, append_member
from aiayn.data.sources.testsets import write_public_testsets
from aiayn.data.text.clean import clean_corpus, preprocessor, reason_to_drop
from aiayn.data.text.lines import count_lines, read_lines, text_pair
from aiayn.data.text.normalise_moses import blank_non_printing
from aiayn.data.text.tokenize_moses import Tokenizer
from aiayn.provenance import gather_provenance
from aiayn.records import ParallelText, RawCorpus
from aiayn.spec.recipe import ArchiveSource
from aiayn.spec.system import CleanSpec, CorpusSpec, read_corpus

MIRROR = os.environ.get("AIAYN_MIRROR", "")


def source_of(corpus: CorpusSpec) -> ArchiveSource:
    """Return the archives of a recipe."""
    assert isinstance(corpus.source, ArchiveSource)
    return corpus.source


def read_archive(
    folder: Path, recipe: str, archive: str, archive_format: str, side_by_language: Mapping[str, bytes]
) -> dict[str, Path]:
    """Write one archive of a recipe, the given sides under their real names; read it and return the joined text."""
    member_by_language = source_of(read_corpus(recipe)).archive_by_name[archive].member_by_language
    packed_path = folder / f"archive.{archive_format}"
    with tarfile.open(packed_path, "w:gz" if archive_format == "tgz" else "w") as tar:
        for name in ("README", *member_by_language.values()):
            languages = [language for language, member in member_by_language.items() if member == name]
            content = side_by_language[languages[0]] if languages else b"by the organisers\n"
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    paths = {language: folder / f"train.{language}" for language in member_by_language}
    into = {language: path.open("wb") for language, path in paths.items()}
    append_archive(packed_path, archive_format, member_by_language, into)
    for text in into.values():
        text.close()
    return paths


def clean(recipe: str, paths: Mapping[str, Path], folder: Path) -> tuple[ParallelText, list[list[str]]]:
    """Clean training text as a recipe says; return the record, and the lines of source and target."""
    corpus = read_corpus(recipe)
    raw = RawCorpus(provenance=gather_provenance(), corpus=recipe, pair_by_split={"train": text_pair(paths)})
    record = clean_corpus(corpus, raw, record_path=folder / "clean" / "record.json")
    languages = (corpus.source_language, corpus.target_language)
    return record, [list(read_lines(folder / "clean" / f"train.{language}")) for language in languages]


def write_sides(folder: Path, *sides: list[str]) -> dict[str, Path]:
    """Write English and German lines and return their paths."""
    paths = {"en": folder / "train.en", "de": folder / "train.de"}
    for path, side in zip(paths.values(), sides, strict=True):
        path.write_bytes("".join(f"{line}\n" for line in side).encode())
    return paths


@pytest.fixture
def mirror() -> Path:
    """The folder that AIAYN_MIRROR names, or a skip that says what is missing."""
    base = urllib.parse.urlsplit(MIRROR)
    folder = Path(urllib.request.url2pathname(base.path))
    if base.scheme != "file" or not all((folder / name).is_dir() for name in ("newstest", "oracle")):
        pytest.skip("AIAYN_MIRROR is no file:// folder with newstest/ and oracle/: the real test sets are not read")
    return folder


def read_testsets(recipe: str, mirror: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Read a recipe's test sets as fetch does, from a mirror and with an empty cache, and return each file's lines."""
    monkeypatch.setenv("SACREBLEU", str(folder / "sacrebleu"))
    text_folder = folder / recipe
    text_folder.mkdir()
    corpus = read_corpus(recipe)
    write_public_testsets(source_of(corpus), corpus.testsets, corpus.language_pair, text_folder, mirror.as_uri())
    return {path.name: list(read_lines(path)) for path in text_folder.iterdir()}


def test_quirk_01_news_commentary_v9_has_carriage_returns_inside_lines(tmp_path: Path) -> None:
    french = ["Horaires de travail.\r Planifier la semaine \r", "Fin\r"]
    sides = {"en": b"Working hours. Plan the week\nEnd\n", "fr": "".join(f"{line}\n" for line in french).encode()}
    paths = read_archive(tmp_path, "wmt14_en_fr", "news_commentary_v9", "tgz", sides)
    assert count_lines(paths["fr"]) == 2
    assert len(paths["fr"].read_text(encoding="utf-8").splitlines()) == 3  # with universal newlines
    _, (_, cleaned) = clean("wmt14_en_fr", paths, tmp_path)
    assert cleaned == french


def test_quirk_02_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    english = ["one\u2028two", "three\u2029", "\u0085four\x0b\x0c\x1c\x1d\x1e", "five"]
    paths = write_sides(tmp_path, english, ["eins zwei", "drei", "vier", "funf"])
    _, (source, target) = clean("wmt14_en_de", paths, tmp_path)
    assert (source, target[-1]) == (english, "funf")


def test_quirk_03_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path) -> None:
    published = source_of(read_corpus("wmt14_en_de")).joined().values()
    assert sum(archive.num_lines for archive in published if archive.num_lines != "unknown") == 4_520_620
    sides = {"en": b"one\n\nthree\n \nfive\n", "de": "eins\nzwei\n\u00a0\nvier\nfunf\n".encode()}
    paths = read_archive(tmp_path, "wmt14_en_de", "europarl_v7", "tgz", sides)
    record, (source, target) = clean("wmt14_en_de", paths, tmp_path)
    assert record.num_dropped_by_reason["empty_side"] == 3
    assert (source, target) == (["one", "five"], ["eins", "funf"])


def test_quirk_04_giga_fren_is_gzip_files_inside_an_unpacked_tar(tmp_path: Path) -> None:
    members = source_of(read_corpus("wmt14_en_fr")).archive_by_name["giga_fren"].member_by_language
    assert all(member.endswith(".gz") for member in members.values())
    sides = {"en": gzip.compress(b"one\ntwo\n"), "fr": gzip.compress(b"un\ndeux\n")}
    paths = read_archive(tmp_path, "wmt14_en_fr", "giga_fren", "tar", sides)
    assert list(read_lines(paths["fr"])) == ["un", "deux"]


def test_quirk_05_commoncrawl_lies_at_its_archives_root_and_goes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = source_of(read_corpus("wmt14_en_de")).archive_by_name
    assert archives["commoncrawl"].member_by_language == {"en": "commoncrawl.de-en.en", "de": "commoncrawl.de-en.de"}
    assert archives["europarl_v7"].member_by_language["en"] == "training/europarl-v7.de-en.en"
    working_folder = tmp_path / "here"
    working_folder.mkdir()
    monkeypatch.chdir(working_folder)
    paths = read_archive(tmp_path, "wmt14_en_de", "commoncrawl", "tgz", {"en": b"one\n", "de": b"eins\n"})
    assert list(read_lines(paths["de"])) == ["eins"]
    assert list(working_folder.iterdir()) == []


def test_quirk_06_english_on_commoncrawls_german_side_stays(tmp_path: Path) -> None:
    sides = {"en": b"The hotel is quiet.\n", "de": b"Book your room now and save.\n"}
    paths = read_archive(tmp_path, "wmt14_en_de", "commoncrawl", "tgz", sides)
    record, (_, target) = clean("wmt14_en_de", paths, tmp_path)
    assert target == ["Book your room now and save."]  # the organisers will not mend it, and the paper had it
    assert set(record.num_dropped_by_reason.values()) == {0}


def test_quirk_07_newstest2014_has_3003_pairs_and_the_french_one_two_orders(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testsets = source_of(read_corpus("wmt14_en_de")).testset_by_name
    found = [(testsets[name].sacrebleu_name, testsets[name].num_lines) for name in testsets if "2014" in name]
    assert found == [("wmt14/full", 3003), ("wmt14", 2737)]
    assert read_corpus("wmt14_en_de").test_testset == read_corpus("wmt14_en_fr").test_testset == "newstest2014"
    german = read_testsets("wmt14_en_de", mirror, tmp_path, monkeypatch)
    french = read_testsets("wmt14_en_fr", mirror, tmp_path, monkeypatch)
    assert len(german["newstest2014.de"]) == len(french["newstest2014.fr"]) == 3003
    assert french["newstest2014.en"][0] == "Spectacular Wingsuit Jump Over Bogota"
    for name, language, num_shared in (("src.en", "en", 3002), ("ref.fr", "fr", 2999)):
        path = tmp_path / f"other.{language}"
        with (mirror / f"newstest/newstest2014-fren-{name}.sgm").open("rb") as markup, path.open("wb") as into:
            assert append_member(markup, into, "sgm", is_markup=True) == 3003
        assert len(set(read_lines(path)) & set(french[f"newstest2014.{language}"])) == num_shared
    assert next(read_lines(tmp_path / "other.en")) == "Jet makers feud over seat width with big orders at stake"


def test_quirk_08_sgm_is_no_xml_and_its_apostrophes_are_its_own(tmp_path: Path) -> None:
    markup = (
        "<srcset>\n<seg id=1>S&P < 5, L\u2019AT&amp;T</seg>\n<hl><seg id='2'>two\u00a0</seg></hl>\n</srcset>\n".encode()
    )
    path = tmp_path / "text"
    with path.open("wb") as into:
        append_member(io.BytesIO(markup), into, "a.sgm", is_markup=True)
    assert list(read_lines(path)) == ["S&P < 5, L\u2019AT&amp;T", "two\u00a0"]


def test_quirk_09_no_break_spaces_and_soft_hyphens_of_references_stay(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    german = read_testsets("wmt14_en_de", mirror, tmp_path, monkeypatch)
    french = read_testsets("wmt14_en_fr", mirror, tmp_path, monkeypatch)
    sides = (german["newstest2013.de"], french["newstest2013.fr"], german["newstest2014.de"], french["newstest2014.fr"])
    assert [sum(line.count("\u00a0") for line in lines) for lines in sides] == [12, 125, 0, 1478]
    assert [sum(line.count("\u00ad") for line in lines) for lines in sides] == [0, 0, 2, 15]
    paths = write_sides(tmp_path, german["newstest2014.en"], german["newstest2014.de"])
    record, (_, target) = clean("wmt14_en_de", paths, tmp_path)
    assert record.num_dropped_by_reason["empty_side"] == 0
    assert sum(line.count("\u00ad") for line in target) == 2
    assert (
        preprocessor("none", "moses", "de")("Laut\u00adsprecher f\u00fcr 10\u00a0000")
        == "Laut \u00ad sprecher f\u00fcr 10 000"
    )


def test_quirk_10_what_does_not_print_is_a_blank_and_depends_on_the_unicode_version() -> None:
    assert blank_non_printing("Laut\u00adsprecher\u200b \ufeffda") == "Laut sprecher   da"
    assert blank_non_printing("\U0001f600") == "\U0001f600"  # in Unicode since 6.1; a perl before 5.16 blanked it
    assert blank_non_printing("\u0378\U000e0080") == "  "  # assigned in no version so far


def test_quirk_11_no_bar_is_deleted_and_a_ratio_of_just_the_limit_stays(tmp_path: Path) -> None:
    english = ["a plain line", "a | b |", "a\u00a0b  c", "1 2 3", "1 2 3 4"]
    german = ["eine Zeile", "a | b |", "d\u00a0e  f", "1 2", "1 2"]
    _, (source, target) = clean("wmt14_en_fr", write_french(tmp_path, english, german), tmp_path)  # ratio 1.5
    assert (source, target) == (english[:4], german[:4])
    _, (tokens, _) = clean("wmt16_en_de_google", write_sides(tmp_path, english, german), tmp_path / "moses")
    assert tokens[1] == "a &#124; b &#124;"  # escaped: clean-corpus-n.perl would find none to delete
    after_bpe = CleanSpec(max_words=250, max_length_ratio=1.5, deduplicate=False, unit="pieces")  # fairseq's script
    assert reason_to_drop("1 2 3 4", "1 2", after_bpe) is None  # binarize looks at the pieces


def write_french(folder: Path, english: list[str], french: list[str]) -> dict[str, Path]:
    """Write English and French lines and return their paths."""
    paths = write_sides(folder, english, french)
    return {"en": paths["en"], "fr": paths["de"].rename(folder / "train.fr")}


def test_quirk_12_the_last_dot_is_split_as_before_november_2018(tmp_path: Path) -> None:
    english = ["He lives in the U.S.", "It is over."]
    paths = write_sides(tmp_path, english, ["Er lebt in den U.S.", "Es ist vorbei, usw."])
    _, (source, target) = clean("wmt16_en_de_google", paths, tmp_path)
    assert source == ["He lives in the U.S.", "It is over ."]  # since then: U.S .
    assert target == ["Er lebt in den U.S.", "Es ist vorbei , usw."]


@pytest.mark.parametrize("testset", ["newstest2013.de", "newstest2014.de", "newstest2014-fren.fr"])
def test_quirk_13_tokens_are_perls_but_for_blanks_that_it_leaves(testset: str, mirror: Path) -> None:
    prepare = preprocessor("none", "moses", testset[-2:])
    printed = gzip.decompress((mirror / "oracle" / f"{testset}.tok.gz").read_bytes()).decode().split("\n")[:-1]
    ours = [prepare(line) for line in read_lines(mirror / "newstest" / testset)]
    assert [line.split(" ") for line in ours] == [line.split() for line in printed]
    assert Tokenizer("fr").tokenize("dit 'oui.'") == "dit &apos; oui . &apos; "  # as perl prints it
    assert Tokenizer("en").tokenize("so (no).'") == "so ( no )  . &apos; "
    assert preprocessor("none", "moses", "en")("so (no).'") == "so ( no ) . &apos;"
