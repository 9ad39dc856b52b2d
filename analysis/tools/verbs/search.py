"""Score beam sizes and length penalties on the development set, as the paper chose its own (section
6.1), and print a table.

RUN is a run's name or any unique beginning of it (`demo_en_de-base-seed1`). Everything else in the
search is as in the run's system. Scores use the definition of BLEU that judges the paper's tables.
Test sets are not used, and the tables read nothing of this.
"""

import itertools
import re
from pathlib import Path

import msgspec
from tqdm import tqdm

from aiayn.cli.flags import AVERAGE, DEVICE, JSON, RESULTS, THREADS, Device, flag, positive
from aiayn.data.text.binarize import require_recorded_split
from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines, unchanged_paths
from aiayn.errors import UsageError
from aiayn.paths import corpus_record
from aiayn.printed import METRIC_BY_PAIR
from aiayn.records import RawCorpus, read_record
from aiayn.runs.finished import FinishedRun, find_finished
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import CorpusSpec, read_corpus
from aiayn.terminal import json_text
from analysis.tools.search import SearchTable, render_markdown

EXAMPLE = (
    "aiayn search demo_en_de-base-seed1 --beam-sizes 1 2 4 8 --alphas 0 0.2 0.4 0.6 0.8 1.0 >"
    " search.md"
)


class Flags:
    run: str = flag("a run's name, or any unique beginning of it", "RUN", is_positional=True)
    beam_sizes: list[int] = flag("default: 1 2 4 8", "N", parse=positive, default=(1, 2, 4, 8))
    alphas: list[float] = flag(
        "default: 0 0.2 0.4 0.6 0.8 1.0", "ALPHA", default=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    )
    results: Path = RESULTS
    average: str | None = AVERAGE
    device: Device = DEVICE
    threads: int = THREADS
    json: bool = JSON


def run(args: Flags) -> None:
    """Decode and score the dev set once for each pair, and print the table.

    Raises:
        RecordError: if the record of fetch, which has the references, is missing.
        UsageError: if an alpha is negative or not a number.
        ConfigError: if a beam is too large for the vocabulary.
    """
    from aiayn.decode.decode import Translator, decoding_signature, load_source_lines
    from aiayn.train.device import limit_threads, resolve_device

    for alpha in args.alphas:
        if not alpha >= 0:
            raise UsageError(f"--alphas has {alpha}; expected 0 or more; correct the flag")
    pairs = list(dict.fromkeys(itertools.product(args.beam_sizes, args.alphas)))
    finished = find_finished(args.results, args.run, args.average)
    limit_threads(args.threads)
    corpus = read_corpus(finished.data.corpus)
    testset, references = corpus.dev_testset, _references(args.results, finished, corpus)
    defined = default_metrics(corpus.target_language, corpus.is_segmented)
    metric = METRIC_BY_PAIR.get(corpus.language_pair, "")
    if metric not in defined:
        metric = defined[0]
    device = resolve_device(args.device)
    translator = Translator(
        finished.checkpoint, finished.data.folder, finished.decoding, device=device
    )
    split = require_recorded_split(finished.data, testset)
    sources = load_source_lines(translator.task, split)
    value_by_pair, signature = {}, ""
    with tqdm(total=len(pairs) * len(sources), unit="line", desc="search", disable=None) as bar:
        for beam_size, alpha in pairs:
            bar.set_postfix_str(f"beam {beam_size}, alpha {alpha:g}")
            decoding = msgspec.structs.replace(
                finished.decoding, beam_size=beam_size, length_penalty_alpha=alpha
            )
            translator.search_as(decoding)
            hypotheses = translator.translate(sources, bar)
            (scored,) = score_hypotheses(
                [detokenise(" ".join(hypothesis.pieces), corpus) for hypothesis in hypotheses],
                references,
                metrics=[metric],
                target_language=corpus.target_language,
                testset=testset,
            )
            value_by_pair[beam_size, alpha] = scored.value
            signature = f"{scored.signature}|{decoding_signature(decoding)}"
    signature = re.sub(r"\|beam:[^|]+", "|beam:ROW", signature)
    table = SearchTable(
        run=finished.checkpoint.run,
        average=finished.checkpoint.average,
        testset=testset,
        num_lines=len(sources),
        metric=metric,
        signature=re.sub(r"\|alpha:[^|]+", "|alpha:COLUMN", signature),
        value_by_pair=value_by_pair,
    )
    if args.json:
        scores = [(beam_size, alpha, value) for (beam_size, alpha), value in value_by_pair.items()]
        columns = ("beam_size", "alpha", metric)
        print(json_text([dict(zip(columns, row, strict=True)) for row in scores]), end="")
    else:
        print(render_markdown(table), end="")


def _references(results_folder: Path, finished: FinishedRun, corpus: CorpusSpec) -> list[str]:
    """Return the references of the dev set, detokenised if the corpus came in pieces."""
    path = corpus_record(results_folder, finished.scale, "fetch", corpus.name)
    pair = read_record(path, RawCorpus).pair_by_split[corpus.dev_testset]
    lines = list(read_lines(unchanged_paths(pair)[corpus.target_language]))
    return [detokenise(line, corpus) for line in lines] if corpus.is_segmented else lines
