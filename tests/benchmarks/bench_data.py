"""Throughput and peak memory of clean, segment and binarize against sacremoses, subword-nmt, sentencepiece and fairseq.

    python tests/benchmarks/bench_data.py                                        100,000 pairs
    python tests/benchmarks/bench_data.py --pairs 100000 1000000 4500000         hours; may be killed and started again
    python tests/benchmarks/bench_data.py --pairs 100000 --only '*/ours/*' 'wmt14_en_de/peer/preprocess'
    python tests/benchmarks/bench_data.py --report                               what is measured so far

Ours are the verbs as a user calls them, with --num-processes; a peer runs on the same text, with as many processes or
threads, in the same run. The text is of corpus_text.py; its real lines are those of the mirror that AIAYN_MIRROR names.
A finished step is a line of costs.jsonl in --folder and is not run again; a killed one begins anew.
"""

import argparse
import fnmatch
import os
import shutil
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "workflow"), str(CHECKOUT)]

from aiayn.json_lines import append_json_line, read_json_lines  # noqa: E402 (after the path is set)
from aiayn.provenance import commit_label  # noqa: E402
from aiayn.spec import read_corpus  # noqa: E402
from tests.benchmarks.corpus_text import CorpusText, read_real_pairs, write_corpus_text  # noqa: E402
from tests.benchmarks.data_report import StepCost, report  # noqa: E402
from tests.benchmarks.data_steps import PEER, ROUTES, Route, Step  # noqa: E402
from tests.benchmarks.measuring import Cost, run_measured  # noqa: E402

DEFAULT_FOLDER = Path("results/bench_data")
SEED = 1706
LANGUAGE_PAIR = "en-de"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for and not measured yet, then print the report."""
    args = _parse(arguments)
    costs_path = args.folder / "costs.jsonl"
    if args.fresh:
        shutil.rmtree(args.folder, ignore_errors=True)
    if not args.report:
        args.folder.mkdir(parents=True, exist_ok=True)
        for num_pairs in sorted(args.pairs):
            for step, route in _steps(args, num_pairs):
                _measure_once(step, route, num_pairs, costs_path)
    costs: list[StepCost] = read_json_lines(costs_path, StepCost, "a measured step")
    print(report([cost for cost in costs if cost.num_processes == args.num_processes]))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000], metavar="N", help="sizes, in pairs")
    parser.add_argument("--num-processes", type=int, default=2, metavar="N", help="of each step (default: 2)")
    parser.add_argument("--routes", nargs="+", choices=ROUTES, default=list(ROUTES), help="recipes (default: all)")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN",
                        help="steps, as route/side/step: '*/ours/*', 'wmt14_en_de/peer/preprocess'")  # fmt: skip
    parser.add_argument("--without-peers", action="store_true", help="ours alone")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER,
                        help=f"of all it writes; 4,500,000 pairs need 15 GB (default: {DEFAULT_FOLDER})")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="measure nothing, print what is there")
    parser.add_argument("--fresh", action="store_true", help="remove the folder first")
    return parser.parse_args(arguments)


def _steps(args: argparse.Namespace, num_pairs: int) -> Iterator[tuple[Step, Route]]:
    """Yield the steps asked for, their text being there; each is to be run before the next is asked for."""
    raw_folder = args.folder / str(num_pairs) / "raw"
    for name in args.routes:
        spec = read_corpus(name)
        route = Route(spec, raw_folder, args.folder / str(num_pairs) / name, args.num_processes)
        for step in route.steps():
            is_asked_for = any(fnmatch.fnmatchcase(step.label, pattern) for pattern in args.only)
            if is_asked_for and not (args.without_peers and step.side == PEER):
                _write_text(raw_folder, num_pairs, spec.testsets)
                route.write_raw_record()
                yield step, route


def _write_text(folder: Path, num_pairs: int, testsets: Sequence[str]) -> None:
    """Write training text and test sets, unless they are there."""
    if folder.exists():
        return
    mirror = os.environ.get("AIAYN_MIRROR", "")
    if urllib.parse.urlsplit(mirror).scheme != "file":
        sys.exit(f"AIAYN_MIRROR is {mirror!r}; expected file:// and a folder that has newstest/ and multi30k/")
    print(f"writing {num_pairs:,} pairs into {folder}", flush=True)
    partial_folder = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    text = CorpusText(read_real_pairs(mirror, LANGUAGE_PAIR), seed=SEED)
    languages = LANGUAGE_PAIR.split("-")
    write_corpus_text(text, num_pairs, {language: partial_folder / f"train.{language}" for language in languages})
    news_folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(mirror).path)) / "newstest"
    for testset in testsets:
        for language in languages:
            shutil.copyfile(news_folder / f"{testset}.{language}", partial_folder / f"{testset}.{language}")
    partial_folder.rename(folder)


def _measure_once(step: Step, route: Route, num_pairs: int, costs_path: Path) -> None:
    """Run a step and append its cost, unless a line of it is there."""
    key = (step.route, step.side, step.name, num_pairs, route.num_processes)
    done: list[StepCost] = read_json_lines(costs_path, StepCost, "a measured step")
    if key in {(cost.route, cost.side, cost.name, cost.num_pairs, cost.num_processes) for cost in done}:
        return
    if step.needed_program is not None and shutil.which(step.needed_program) is None:
        print(f"{step.label}: skipped, as {step.needed_program} is not on PATH; pip install it", flush=True)
        return
    print(f"{step.label}, {num_pairs:,} pairs: {step.what} ...", flush=True)
    step.make_folder()
    log_path = step.folder.with_name(f"{step.name}.log")
    log_path.unlink(missing_ok=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])}
    cost = Cost()
    for command in step.commands:
        cost = cost.then(run_measured(command, log_path=log_path, environment=environment))
    is_equal = None if step.check is None else step.check()
    print(f"  {cost.wall_seconds:.1f} s, {cost.cpu_seconds:.1f} CPU-s, {cost.peak_mib:.0f} MiB", flush=True)
    measured = StepCost(
        route=step.route, side=step.side, name=step.name, what=step.what, num_pairs=num_pairs,
        num_processes=route.num_processes, wall_seconds=round(cost.wall_seconds, 2),
        cpu_seconds=round(cost.cpu_seconds, 2), peak_mib=round(cost.peak_mib, 1),
        learning_seconds=round(route.learning_seconds(step, cost.wall_seconds), 2),
        most_learnt_pairs=route.most_learnt_pairs(), is_equal=is_equal, commit=commit_label(),
    )  # fmt: skip
    append_json_line(costs_path, measured)


if __name__ == "__main__":
    sys.exit(main())
