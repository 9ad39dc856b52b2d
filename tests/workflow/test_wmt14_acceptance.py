"""The paper's data, from the public places to the data-bins, by snakemake, while everything goes
wrong that may.

The archives are small and of the real ones' layout, served by a server that is slow, busy, breaks
off and gives one corrupt file first. The recipes inherit the real ones and override addresses,
sizes, sums and the vocabulary's size (small_recipes.py). Nothing else is replaced: the commands are
the real ones.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from sacremoses import MosesTokenizer

from aiayn.spec.corpus import ArchiveSource
from aiayn.spec.system import CONFIG_FOLDER, read_corpus
from tests.pipeline_copy import NOTHING_TO_DO, Pipeline, copy_checkout
from tests.workflow.loopback_server import LoopbackServer, loopback_server
from tests.workflow.small_recipes import (
    NUM_LINES_BY_ARCHIVE,
    ODD_PAIRS,
    TESTSETS,
    member_lines,
    serve_recipes,
    small_recipe,
    write_recipe,
)

pytestmark = pytest.mark.slow

GOOGLE = "wmt16_en_de_google"  # Moses' tokens and subword-nmt's codes
RECIPES = ("wmt14_en_de", "wmt14_en_fr", GOOGLE)
VOCABULARY_SIZE = 150
# Which of the odd pairs each recipe drops from every archive, worked out from its limits: of 250,
# 175 and 80 words, and of a ratio of 9, 1.5 and 9. Google's recipe limits a word to 1,000 letters.
_EMPTY = {"empty_side": ["nothing", "nothing_on_one_side"], "long_word": [], "duplicate": []}
DROPPED_BY_REASON = {
    "wmt14_en_de": _EMPTY | {"too_long": ["300_words"], "length_ratio": ["20_to_2_words"]},
    "wmt14_en_fr": _EMPTY | {"too_long": ["300_words"], "length_ratio": ["20_to_2_words", "10_to_5_words"]},
    "wmt16_en_de_google": _EMPTY | {"too_long": ["300_words", "100_words"], "length_ratio": ["20_to_2_words"],
                                    "long_word": ["1001_letters"]},
}  # fmt: skip
NUM_PAIRS = {
    "wmt14_en_de": 120 + 90 + 40,
    "wmt14_en_fr": 120 + 90 + 40 + 150 + 70,
    "wmt16_en_de_google": 120 + 90 + 45,
}
EUROPARL = "/statmt/wmt13/training-parallel-europarl-v7.tgz"
COMMONCRAWL = "/statmt/wmt13/training-parallel-commoncrawl.tgz"
NEWS = "/statmt/wmt14/training-parallel-nc-v9.tgz"
GIGA = "/statmt/wmt10/training-giga-fren.tar"
# Both languages' fetches run at once and may each ask for the news commentary before the other has
# it.
FAULTS = {
    EUROPARL: ["busy", "drop"],
    COMMONCRAWL: ["drop"],
    NEWS: ["corrupt", "corrupt"],
    GIGA: ["drop", "busy", "drop"],
}


@dataclass(frozen=True)
class Run:
    """A finished pipeline, and the server that it was served by."""

    pipeline: Pipeline
    server: LoopbackServer

    def record(self, verb: str, recipe: str) -> Any:
        """Return a data stage's record, as it stands in its file."""
        return json.loads(self.record_path(verb, recipe).read_text(encoding="utf-8"))

    def record_path(self, verb: str, recipe: str) -> Path:
        """Return where a data stage's record lies."""
        return (
            self.pipeline.working_folder
            / "results"
            / "paper"
            / verb
            / f"{recipe}_small"
            / "record.json"
        )


def real_pipeline(folder: Path) -> Pipeline:
    """Return a copy of the checkout whose `aiayn` is the copy's own."""
    command_path = folder / "own" / "bin" / "aiayn"
    command_path.parent.mkdir(parents=True)
    command_path.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m aiayn "$@"\n', encoding="utf-8"
    )
    command_path.chmod(0o755)
    return Pipeline(
        checkout=copy_checkout(folder / "checkout"),
        fake_folder=folder / "own",
        arguments=("data", "--configfile", "workflow/config/paper.yaml"),
        environment={"SACREBLEU": str(folder / "sacrebleu"), "OMP_NUM_THREADS": "1"},
    )


def make_data(
    pipeline: Pipeline, server: LoopbackServer, en_de_recipe: str
) -> subprocess.CompletedProcess[str]:
    """Run snakemake up to the data-bins, En-De by one recipe or another: a sheet of its own."""
    text = (CONFIG_FOLDER / "trainings" / "paper.tsv").read_text(encoding="utf-8")
    text = text.replace("wmt14_en_de", f"{en_de_recipe}_small")
    sheet_path = pipeline.checkout / f"{en_de_recipe}.tsv"
    sheet_path.write_text(text.replace("wmt14_en_fr", "wmt14_en_fr_small"), encoding="utf-8")
    return pipeline.run(
        "--config",
        f"trainings={sheet_path}",
        f"mirror={server.url}/mirror",
    )


@pytest.fixture(scope="module")
def served() -> Iterator[LoopbackServer]:
    """Serve all recipes, slowly, with faults."""
    with loopback_server() as server:
        serve_recipes(server, map(read_corpus, RECIPES))
        server.seconds_per_block = 0.001
        server.faults_by_path.update({path: list(faults) for path, faults in FAULTS.items()})
        yield server


@pytest.fixture(scope="module")
def paper(served: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Make the data of paper.yaml."""
    pipeline = real_pipeline(tmp_path_factory.mktemp("acceptance"))
    for recipe in RECIPES:
        small = small_recipe(read_corpus(recipe), served, VOCABULARY_SIZE)
        write_recipe(small, pipeline.checkout / "workflow" / "config")
    finished = make_data(pipeline, served, "wmt14_en_de")
    assert finished.returncode == 0, finished.stdout
    return Run(pipeline, served)


@pytest.fixture(scope="module")
def google(paper: Run) -> Run:
    """Make the data of the recipe that the paper's numbers stand on, after that of paper.yaml and
    in its folder.
    """
    finished = make_data(paper.pipeline, paper.server, GOOGLE)
    assert finished.returncode == 0, finished.stdout
    return paper


def run_of(recipe: str, request: pytest.FixtureRequest) -> Run:
    """Return the run that made a recipe's data."""
    run: Run = request.getfixturevalue("google" if recipe == GOOGLE else "paper")
    return run


def kept_lines(recipe: str, language: str) -> list[str]:
    """Return one side of training as it must be, archive after archive, without the odd pairs that
    are dropped.
    """
    source = read_corpus(recipe).source
    assert isinstance(source, ArchiveSource)
    dropped = {name for names in DROPPED_BY_REASON[recipe].values() for name in names}
    kept = []
    for name, archive in source.joined().items():
        lines = member_lines(name, archive.member_by_language[language], NUM_LINES_BY_ARCHIVE[name])
        num_plain = len(lines) - len(ODD_PAIRS)
        kept += lines[:num_plain]
        kept += [
            line
            for odd, line in zip(ODD_PAIRS, lines[num_plain:], strict=True)
            if odd not in dropped
        ]
    return kept


def pieces_in(data_bin: Path, split: str, language_pair: str, language: str) -> list[list[str]]:
    """Return the pieces of each line of a data-bin, read by fairseq. `</s>` must end each."""
    dictionary = Dictionary.load(str(data_bin / f"dict.{language}.txt"))
    lines = MMapIndexedDataset(str(data_bin / f"{split}.{language_pair}.{language}"))
    assert all(line[-1] == dictionary.eos() for line in lines)
    return [[dictionary[index] for index in line[:-1]] for line in lines]


def texts_in(run: Run, recipe: str, split: str, language: str) -> list[str]:
    """Return the lines of text that a data-bin's numbers stand for: sentencepiece's own decoding,
    or `@@ ` removed.
    """
    language_pair = read_corpus(recipe).language_pair
    data_bin = run.record_path("binarize", recipe).parent / run.record("binarize", recipe)["folder"]
    lines = pieces_in(data_bin, split, language_pair, language)
    if recipe == GOOGLE:
        return [re.sub("@@( |$)", "", " ".join(pieces)) for pieces in lines]
    model_name = run.record("segment", recipe)["model_path_by_language"][language]
    model_path = run.record_path("segment", recipe).parent / model_name
    model = sentencepiece.SentencePieceProcessor(model_file=str(model_path))
    return [model.decode_pieces(pieces) for pieces in lines]


def lines_of_testset(language_pair: str, testset: str, language: str) -> list[str]:
    """Return a test set as it is served."""
    return TESTSETS[language_pair][testset][language].decode().split("\n")[:-1]


def moses_tokens(lines: Sequence[str], language: str) -> list[str]:
    """Return lines as Moses' tokenizer of before November 2018 prints them, escaped."""
    tokenizer = MosesTokenizer(lang=language)
    return [" ".join(tokenizer.tokenize(line, escape=True)) for line in lines]


@pytest.mark.parametrize("recipe", ["wmt14_en_de", "wmt14_en_fr"])
def test_the_numbers_of_the_data_bin_are_the_published_text_character_by_character(
    paper: Run, recipe: str
) -> None:
    language_pair = read_corpus(recipe).language_pair
    for language in language_pair.split("-"):
        assert texts_in(paper, recipe, "train", language) == kept_lines(recipe, language)
        for split, testset in (("valid", "newstest2013"), ("test", "newstest2014")):
            assert texts_in(paper, recipe, split, language) == lines_of_testset(
                language_pair, testset, language
            )


def test_the_recipe_of_moses_script_is_one_word_away_and_gives_its_tokens(google: Run) -> None:
    for language in ("en", "de"):
        expected = moses_tokens(kept_lines(GOOGLE, language), language)
        assert texts_in(google, GOOGLE, "train", language) == expected
        for split, testset in (("valid", "newstest2013"), ("test", "newstest2014")):
            expected = moses_tokens(lines_of_testset("en-de", testset, language), language)
            assert texts_in(google, GOOGLE, split, language) == expected


@pytest.mark.parametrize("recipe", RECIPES)
def test_pairs_are_counted_and_dropped_for_the_recipes_reasons(
    recipe: str, request: pytest.FixtureRequest
) -> None:
    run = run_of(recipe, request)
    source = read_corpus(recipe).source
    assert isinstance(source, ArchiveSource)
    fetched = run.record("fetch", recipe)
    assert {name: seen["num_lines"] for name, seen in fetched["archive_by_name"].items()} == {
        name: NUM_LINES_BY_ARCHIVE[name] for name in source.archives
    }
    cleaned = run.record("clean", recipe)
    num_dropped = {
        reason: len(names) * len(source.archives)
        for reason, names in DROPPED_BY_REASON[recipe].items()
    }
    assert cleaned["num_dropped_by_reason"] == num_dropped
    num_kept = NUM_PAIRS[recipe] - sum(num_dropped.values())
    assert cleaned["num_pairs"] == num_kept
    num_pairs_by_split = {"train": num_kept, "newstest2013": 2, "newstest2014": 2}
    assert run.record("binarize", recipe)["num_pairs_by_split"] == num_pairs_by_split


def test_an_archive_that_both_languages_need_is_downloaded_once(paper: Run) -> None:
    whole = [asked for asked in paper.server.asked(EUROPARL) if asked[1] in (200, 206)]
    assert whole == [("", 200), (f"bytes={len(paper.server.content_by_path[EUROPARL]) // 2}-", 206)]


def test_nothing_is_made_twice(google: Run) -> None:
    for again in ("wmt14_en_de", GOOGLE):
        finished = make_data(google.pipeline, google.server, again)
        assert NOTHING_TO_DO in finished.stdout, finished.stdout
