"""Score translations that need no training; a trained system must beat them.

These are: a copy of the source, a word-by-word dictionary, and the translation of the nearest
training sentence. All training pairs are held in memory to find the nearest: more than 1,000,000
are refused.
"""

from pathlib import Path

from aiayn.cli.flags import RECORD, TESTSET, flag
from aiayn.data.text.lines import read_lines
from aiayn.provenance import gather_provenance
from aiayn.records import BaselineRecords, RawCorpus, read_record, write_record
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
    """Translate without training, score, and write the record."""
    from aiayn.data.baselines import (
        nearest_training_sentence,
        require_few_pairs,
        translate_word_by_word,
    )

    raw = read_record(args.raw, RawCorpus)
    require_few_pairs(raw.pair_by_split["train"].num_lines, raw.corpus)
    corpus = read_corpus(raw.corpus)

    def lines(split: str, language: str) -> list[str]:
        return list(read_lines(raw.pair_by_split[split].path_by_language[language]))

    sources, references = (lines(args.testset, language) for language in corpus.languages)
    train_sources, train_targets = (lines("train", language) for language in corpus.languages)
    translations = {"copy": sources}
    if isinstance(corpus.source, ShippedSource) and corpus.source.dictionary is not None:
        entries = read_lines(CONFIG_FOLDER / "corpora" / corpus.source.dictionary)
        dictionary = dict(entry.split("\t") for entry in entries)
        translations["dictionary"] = translate_word_by_word(sources, dictionary)
    translations["nearest"] = nearest_training_sentence(sources, train_sources, train_targets)
    scores = {
        name: score_hypotheses(
            translated,
            references,
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
