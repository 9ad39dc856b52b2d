"""Score translations that are made without training. A trained system must beat these baselines.

There are three baselines: a copy of the source, a word-by-word dictionary, and the translation of
the most similar sentence of the training data. To find the most similar sentence, all sentence
pairs of the training data are held in memory. A corpus of more than 1,000,000 sentence pairs is
refused.
"""

from pathlib import Path

from aiayn.cli.flags import RECORD, TESTSET, flag
from aiayn.data.text.lines import read_lines
from aiayn.errors import CorpusError
from aiayn.provenance import gather_provenance
from aiayn.records import BaselineRecords, RawCorpus, read_record, require_files, write_record
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import CONFIG_FOLDER, ShippedSource, read_corpus

EXAMPLE = (
    "aiayn baselines --raw results/demo/fetch/demo_en_de/record.json --testset demo_test --record"
    " baselines.json"
)


class Flags:
    raw: Path = flag("record of fetch", "RECORD")
    testset: str = TESTSET
    record: Path = RECORD


def run(args: Flags) -> None:
    """Make the translations of the baselines, score them, and write the record of the scores."""
    from aiayn.data.baselines import (
        nearest_training_sentence,
        require_few_pairs,
        translate_word_by_word,
    )

    raw = read_record(args.raw, RawCorpus, "--raw")
    # Refused by the number in the record, before millions of lines are read.
    require_few_pairs(raw.pair_by_split["train"].num_lines, raw.corpus)
    corpus = read_corpus(raw.corpus)
    if args.testset not in raw.pair_by_split:
        testsets = ", ".join(raw.pair_by_split)
        raise CorpusError(f"{args.raw}: no test set {args.testset!r}; {raw.corpus} has {testsets}")

    def sides(split: str) -> list[list[str]]:
        # Raises if a file was edited since fetch: the numbers would not be those of the corpus.
        paths = raw.pair_by_split[split].path_by_language
        require_files(raw, paths.values())
        return [list(read_lines(paths[language])) for language in corpus.languages]

    sources, references = sides(args.testset)
    train_sources, train_targets = sides("train")
    # The BLEU of a copy is above 0, because names and numbers are the same in both languages.
    translations = {"copy": sources}
    # Only the corpora of the demo have a dictionary. It has one translation for each English word.
    if isinstance(corpus.source, ShippedSource) and corpus.source.dictionary is not None:
        path = CONFIG_FOLDER / "corpora" / corpus.source.dictionary
        entries = [entry.partition("\t") for entry in read_lines(path)]
        dictionary = {word: translation for word, _, translation in entries}
        translations["dictionary"] = translate_word_by_word(sources, dictionary)
    translations["nearest"] = nearest_training_sentence(sources, train_sources, train_targets)
    scores = {
        name: score_hypotheses(
            translated,
            references,
            # A corpus that is published as tokens is scored as it is: its plain text does not
            # exist.
            metrics=default_metrics(corpus.target_language, corpus.is_segmented),
            target_language=corpus.target_language,
            testset=args.testset,
        )
        for name, translated in translations.items()
    }
    provenance = gather_provenance([args.raw])
    record = BaselineRecords(
        provenance=provenance, corpus=raw.corpus, testset=args.testset, scores_by_baseline=scores
    )
    write_record(record, args.record)
