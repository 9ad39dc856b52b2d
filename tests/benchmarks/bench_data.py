"""CPU seconds and peak memory of clean, segment and binarize, of this checkout or of several in turn.

    python tests/benchmarks/bench_data.py                                        100,000 pairs, this checkout
    python tests/benchmarks/bench_data.py --pairs 580000 --rounds 5 --checkouts ../before .

The verbs run as a user calls them, with --num-processes; of several rounds the median is told. The text is of
corpus_text.py; its real lines are those of the mirror that AIAYN_MIRROR names. That all outputs are equal is checked.
"""

import argparse
import hashlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "workflow"), str(CHECKOUT)]

from aiayn.data.text.lines import text_pair  # noqa: E402 (after the path is set)
from aiayn.provenance import gather_provenance  # noqa: E402
from aiayn.records import RawCorpus, write_record  # noqa: E402
from aiayn.spec.system import CorpusSpec, read_corpus  # noqa: E402
from tests.benchmarks.corpus_text import CorpusText, read_real_pairs, write_corpus_text  # noqa: E402
from tests.benchmarks.table import ratios_of, tell  # noqa: E402

SEED = 1706
RECIPES = ("wmt14_en_de", "wmt16_en_de_google")
INPUTS_BY_VERB = {
    "clean": ["--raw", "fetch.json"],
    "segment": ["--text", "clean/record.json"],
    "binarize": ["--text", "clean/record.json", "--segmented", "segment/record.json"],
}


def main() -> None:
    """Measure and print a row a verb and checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000, metavar="N", help="size of the text (default: 100,000)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each is run (default: 1)")
    parser.add_argument("--num-processes", type=int, default=2, metavar="N", help="of clean and binarize (default: 2)")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help=f"corpora (default: {' '.join(RECIPES)})")
    parser.add_argument("--checkouts", type=Path, nargs="+", default=[CHECKOUT], help="whose code runs (default: this)")
    parser.add_argument("--folder", type=Path, default=Path("results/bench_data"), help="of all it writes")
    args = parser.parse_args()
    for recipe in args.recipes:
        spec = read_corpus(recipe)
        folders = [args.folder / f"{args.pairs}-{recipe}" / str(index) for index in range(len(args.checkouts))]
        for folder in folders:
            _write_text(folder, args.pairs, spec)
        for verb in INPUTS_BY_VERB:
            costs: list[list[tuple[float, float]]] = [[] for _ in folders]
            for _ in range(args.rounds):
                for checkout, folder, measured in zip(args.checkouts, folders, costs, strict=True):
                    measured.append(_measure(verb, recipe, checkout.resolve(), folder, args.num_processes))
            if len({_digest(folder / verb) for folder in folders}) != 1:
                sys.exit(f"{recipe}: the checkouts' {verb} wrote different bytes, below {folders[0].parent}")
            for checkout, measured in zip(args.checkouts, costs, strict=True):
                seconds, mib = (statistics.median(values) for values in zip(*measured, strict=True))
                what = f"`aiayn {verb}` of {args.pairs:,} pairs, {recipe}"
                first = statistics.median(seconds for seconds, _ in costs[0])
                is_first = checkout == args.checkouts[0]
                tell(
                    what if len(args.checkouts) == 1 else f"{what}, {checkout}",
                    f"{seconds:.1f} CPU s, a process has {mib:.0f} MiB at most",
                    "" if is_first else f"{args.checkouts[0]}: {first:.1f} CPU s",
                    [] if is_first else ratios_of([one for one, _ in costs[0]], [one for one, _ in measured]),
                )


def _write_text(folder: Path, num_pairs: int, spec: CorpusSpec) -> None:
    """Write training text, test sets and the record that fetch would have written of them, unless they are there."""
    if (folder / "fetch.json").exists():
        return
    mirror = os.environ.get("AIAYN_MIRROR", "")
    if urllib.parse.urlsplit(mirror).scheme != "file":
        sys.exit(f"AIAYN_MIRROR is {mirror!r}; expected file:// and a folder that has newstest/ and multi30k/")
    folder.mkdir(parents=True, exist_ok=True)
    languages = spec.language_pair.split("-")
    text = CorpusText(read_real_pairs(mirror, spec.language_pair), seed=SEED)
    write_corpus_text(text, num_pairs, {language: folder / f"train.{language}" for language in languages})
    news_folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(mirror).path)) / "newstest"
    for testset in spec.testsets:
        for language in languages:
            shutil.copyfile(news_folder / f"{testset}.{language}", folder / f"{testset}.{language}")
    pair_by_split = {
        split: text_pair({language: folder / f"{split}.{language}" for language in languages})
        for split in ("train", *spec.testsets)
    }
    record = RawCorpus(provenance=gather_provenance(), corpus=spec.name, pair_by_split=pair_by_split)
    write_record(record, folder / "fetch.json")


def _measure(verb: str, recipe: str, checkout: Path, folder: Path, num_processes: int) -> tuple[float, float]:
    """Run a verb by a checkout's code; return CPU seconds of all its processes and the largest one's peak in MiB."""
    inputs = [part if part.startswith("--") else str(folder / part) for part in INPUTS_BY_VERB[verb]]
    command = [sys.executable, "-m", "aiayn", verb, "--corpus", recipe, *inputs]
    command += ["--record", str(folder / verb / "record.json")]
    command += [] if verb == "segment" else ["--num-processes", str(num_processes)]
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'workflow'}:{checkout}"}
    read, write = os.pipe()
    if (process := os.fork()) == 0:  # what is used by children is told of all of them, so this is the only one
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = done.stderr if done.returncode else f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}"
        os.write(write, told[-4000:].encode())
        os._exit(done.returncode)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    if os.waitpid(process, 0)[1]:
        sys.exit(f"{verb} of {recipe} by {checkout} failed:\n{told}")
    seconds, mib = map(float, told.split())
    return seconds, mib


def _digest(folder: Path) -> str:
    """Return a digest of all that a verb wrote but its record."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "record.json")
    listing = [f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths]
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()


if __name__ == "__main__":
    main()
