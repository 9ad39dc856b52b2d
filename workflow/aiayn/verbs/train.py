"""Train one system on one corpus with one seed (section 5), or resume, or wait for whoever is training it already.

The run lies in `<runs folder>/<corpus>-<system>-seed<k>-<digest8>/`: checkpoints, fairseq's JSON log, attempts.jsonl.
Ctrl-C saves and ends; the same command goes on. Exit code 3: the run failed, and no record was written.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiayn.training_spec import TrainingSpec

EXAMPLE = (
    "aiayn train --scale demo --corpus demo_en_de --system base --seed 1 "
    "--binarized results/demo/binarize/demo_en_de/record.json --record results/demo/train/demo_en_de/base/seed1.json"
)


def positive(text: str) -> int:
    """Return a flag's whole number of 1 or more.

    Raises:
        ArgumentTypeError: for anything else.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn train`."""
    from aiayn.launch import LAUNCHERS

    parser.add_argument("--scale", required=True, help="demo, multi30k or paper: which folder of systems")
    parser.add_argument("--corpus", required=True, help="a corpus of workflow/config/corpora")
    parser.add_argument("--system", required=True, help="a system of workflow/config/systems/<scale>")
    parser.add_argument("--seed", type=int, required=True, help="seed of initialisation, dropout and order of data")
    parser.add_argument("--binarized", type=Path, required=True, metavar="RECORD", help="record of binarize")
    parser.add_argument(
        "--vectors", type=Path, metavar="FILE", help="what the embeddings start from, for a system of `vectors`"
    )
    parser.add_argument("--updates", type=positive, metavar="N", help="train so many, not the system's own number")
    parser.add_argument("--record", type=Path, required=True, help="where to write the record of the finished training")
    parser.add_argument("--runs-folder", type=Path, default=Path("runs"), help="where runs lie (default: runs)")
    parser.add_argument(
        "--launcher", default="local", choices=LAUNCHERS, help="local (default) or debug (in this process)"
    )
    parser.add_argument(
        "--num-models", type=positive, default=1, metavar="N", help="how many model-only checkpoints to keep"
    )
    parser.add_argument("--threads-per-rank", type=positive, default=1, help="CPU threads of each rank (default: 1)")
    parser.add_argument("--num-ranks", type=positive, default=1, help="processes that share each update (default: 1)")
    parser.add_argument("--fresh", action="store_true", help="begin anew; what was there is set aside")
    parser.add_argument(
        "--allow-long-runs",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="do not stop at a prediction beyond 24 hours (default: stop)",
    )


def _vectors_sha256(args: argparse.Namespace, training: "TrainingSpec") -> str | None:
    """Return the digest of the file that the embeddings start from, None for a system that starts from none.

    Raises:
        UsageError: if a system gets no file that needs one, or one that it would not read.
        CorpusError: if the file has other dimensions than the system.
    """
    from aiayn.errors import CorpusError, UsageError
    from aiayn.provenance import file_sha256
    from aiayn.vectors import read_dimensions

    needs_vectors = training.embeddings == "vectors" and training.architecture == "transformer"
    if needs_vectors != (args.vectors is not None):
        advice = "name their file: --vectors FILE" if needs_vectors else "leave --vectors out"
        raise UsageError(f"{args.system}: embeddings is {training.embeddings!r}, vectors {args.vectors}; {advice}")
    if args.vectors is None:
        return None
    dimensions = read_dimensions(args.vectors)
    if dimensions != training.d_model:
        raise CorpusError(
            f"{args.vectors}: {dimensions} dimensions, expected {args.system}'s d_model, {training.d_model}; "
            f"make others: `aiayn vectors --dimensions {training.d_model}`"
        )
    return file_sha256(args.vectors)


def run(args: argparse.Namespace) -> None:
    """Drive the training to its end."""
    from aiayn.attempts import DONE_NAME
    from aiayn.binarize import require_recorded_data_bin
    from aiayn.engine.fairseq_args import refuse_untrainable, training_data
    from aiayn.feasibility import check_feasible
    from aiayn.launch import TrainingRequest
    from aiayn.provenance import commit_label
    from aiayn.records import BinarizedCorpus, read_record
    from aiayn.spec import read_system, run_name, shortened
    from aiayn.stages import STAGE_VERSIONS
    from aiayn.train import drive

    system = shortened(read_system(args.system, args.scale), args.updates)
    refuse_untrainable(args.system, system.training, num_ranks=args.num_ranks)
    data = read_record(args.binarized, BinarizedCorpus)
    require_recorded_data_bin(data)
    run = run_name(
        corpus=args.corpus,
        system=args.system,
        seed=args.seed,
        training=system.training,
        data_digest=data.digest,
        stage_version=STAGE_VERSIONS["train"],
        vectors_sha256=_vectors_sha256(args, system.training),
    )
    request = TrainingRequest(
        run=run,
        run_folder=str((args.runs_folder / run).absolute()),
        corpus=args.corpus,
        system=args.system,
        seed=args.seed,
        training=system.training,
        data=training_data(data),
        binarized_path=str(args.binarized),
        num_models=args.num_models,
        num_ranks=args.num_ranks,
        threads_per_rank=args.threads_per_rank,
        commit=commit_label(),
        command=shlex.join(["aiayn", *sys.argv[1:]]),
        vectors_path=str(args.vectors.absolute()) if args.vectors else None,
    )
    if args.fresh or not Path(request.run_folder, DONE_NAME).exists():
        check_feasible(request, data, scale=args.scale, allow_long_runs=args.allow_long_runs)
    drive(request, launcher=args.launcher, record_path=args.record, fresh=args.fresh)
