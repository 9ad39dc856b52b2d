"""Score beam sizes and length penalties on the development set, as the paper chose its own (section
6.1).

RUN is a run's name or any unique beginning of it (`demo_en_de-base-seed1`). Everything else in the
search is as in the run's system. Scores use the definition of BLEU that judges the paper's tables.
Test sets are not used, and the tables read nothing of what is written here.
"""

import time
from functools import partial
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from aiayn.cli.flags import AVERAGE, DEVICE, RESULTS, THREADS, Device, flag
from aiayn.data.text.detokenise import detokenise
from aiayn.printed import METRIC_BY_PAIR
from aiayn.provenance import replace_on_success
from aiayn.runs.finished import FinishedRun, find_finished
from aiayn.scoring.score import score_hypotheses
from aiayn.spec.system import read_corpus
from analysis.tools.references import read_references
from analysis.tools.search import SearchCell, SearchTable, pairs_to_try, render_csv, render_markdown
from analysis.tools.verbs.search_flags import LENGTH_PENALTY_FORM, STOP, changed_search

EXAMPLE = (
    "aiayn search demo_en_de-base-seed1 --beam-sizes 1 2 4 8 --alphas 0 0.2 0.4 0.6 0.8 1.0"
    " --output-folder search"
)


class Flags:
    run: str = flag("a run's name, or any unique beginning of it", "RUN", is_positional=True)
    beam_sizes: list[int] = flag("default: 1 2 4 8", "N", default=(1, 2, 4, 8))
    alphas: list[float] = flag(
        "default: 0 0.2 0.4 0.6 0.8 1.0", "ALPHA", default=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    )
    length_penalty_form: Literal["len", "gnmt"] | None = LENGTH_PENALTY_FORM
    stop: Literal["fairseq", "tensor2tensor"] | None = STOP
    metric: str | None = flag("as `aiayn score` names it (default: the paper's tables' metric)")
    output_folder: Path | None = flag("also write the table here (.md, .csv)", "FOLDER")
    results: Path = RESULTS
    average: str | None = AVERAGE
    device: Device = DEVICE
    threads: int = THREADS


def run(args: Flags) -> None:
    """Decode the dev set for each pair, print the table and, if asked to, write it."""
    table = _search(args, find_finished(args.results, args.run, args.average))
    print(render_markdown(table), end="")
    if args.output_folder is None:
        return
    for suffix, text in ((".md", render_markdown(table)), (".csv", render_csv(table))):
        path = args.output_folder / f"{table.run}-{table.average}-{table.testset}{suffix}"
        with replace_on_success(path) as partial_path:
            partial_path.write_text(text, encoding="utf-8", newline="\n")
        print(path)


def _search(args: Flags, finished: FinishedRun) -> SearchTable:
    """Decode and score the dev set once for each search."""
    from aiayn.decode.decode import Translator, decoding_signature, load_source_lines
    from aiayn.train.device import limit_threads, resolve_device

    searches = pairs_to_try(changed_search(finished.decoding, args), args.beam_sizes, args.alphas)
    limit_threads(args.threads)
    corpus = read_corpus(finished.data.corpus)
    metric = args.metric or (
        "bleu_as_given" if corpus.is_segmented else METRIC_BY_PAIR[corpus.language_pair]
    )
    references = read_references(args.results, finished.scale, corpus.name, corpus.dev_testset)
    score = partial(
        score_hypotheses,
        references=references,
        metrics=[metric],
        target_language=corpus.target_language,
        testset=corpus.dev_testset,
    )
    score(references)  # a metric that is not defined here is refused before anything is decoded
    device = resolve_device(args.device)
    translator = Translator(
        finished.checkpoint.path, finished.data.folder, searches[0], device=device
    )
    sources = load_source_lines(translator.task, finished.data.split_of(corpus.dev_testset))
    cells = []
    with tqdm(total=len(searches) * len(sources), unit="line", desc="search", disable=None) as bar:
        for decoding in searches:
            bar.set_postfix_str(
                f"beam {decoding.beam_size}, alpha {decoding.length_penalty_alpha:g}"
            )
            translator.search_as(decoding)
            begin = time.perf_counter()
            hypotheses = translator.translate(sources, bar)
            seconds = max(time.perf_counter() - begin, 1e-9)
            (scored,) = score(
                [detokenise(" ".join(hypothesis.pieces), corpus) for hypothesis in hypotheses]
            )
            cells.append(
                SearchCell(
                    beam_size=decoding.beam_size,
                    alpha=decoding.length_penalty_alpha,
                    value=scored.value,
                    sentences_per_second=len(sources) / seconds,
                    hypotheses_sha256=scored.hypotheses_sha256,
                    signature=f"{scored.signature}|{decoding_signature(decoding)}",
                )
            )
    return SearchTable(
        run=finished.checkpoint.run,
        average=finished.checkpoint.average,
        testset=corpus.dev_testset,
        num_lines=len(sources),
        metric=metric,
        cells=cells,
    )
