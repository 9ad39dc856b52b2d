"""Train one system on one corpus with one seed (section 5), or resume it, or wait if it is being trained already.

The run is `<runs folder>/<corpus>-<system>-seed<k>-<digest8>/`: checkpoints, fairseq's JSON log, attempts.jsonl. Ctrl-C
saves and ends; the same command resumes. On Slurm the job continues without this command, and the same command attaches
to it again. --dry-run needs neither --binarized nor --record: it uses the pipeline's record of the data, or prints
DIGEST in the run's name if there is none yet. Exit code 3: the run failed or was cancelled; no record was written.
"""

import argparse
import shlex
import sys
from pathlib import Path

import msgspec

from aiayn import paths
from aiayn.engine.fairseq_args import TrainingData, refuse_untrainable, training_data
from aiayn.errors import UsageError
from aiayn.launch.cluster_spec import ClusterSpec, read_cluster
from aiayn.launch.driver import drive
from aiayn.launch.feasibility import check_feasible, check_precision, check_space
from aiayn.launch.job import TrainingRequest
from aiayn.launch.run_code import foresee_code
from aiayn.launch.submit import sbatch_text
from aiayn.plan.config import add_override_arguments, named_overrides, positive
from aiayn.provenance import commit_label
from aiayn.records import BinarizedCorpus, read_record
from aiayn.runs.attempts import is_done
from aiayn.runs.jobs import LAUNCHERS
from aiayn.spec import overridden, read_corpus, read_system, run_name
from aiayn.stages import STAGE_VERSIONS
from aiayn.text.binarize import require_recorded_data_bin
from aiayn.training_spec import TrainingSpec

EXAMPLE = (
    "aiayn train --scale demo --corpus demo_en_de --system base --seed 1 "
    "--binarized results/demo/binarize/demo_en_de/record.json --record results/demo/train/demo_en_de/base/seed1.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn train`."""
    parser.add_argument("--scale", required=True, help="demo, multi30k or paper: which folder of systems")
    parser.add_argument("--corpus", required=True, help="a corpus of workflow/config/corpora")
    parser.add_argument("--system", required=True, help="a system of workflow/config/systems/<scale>")
    parser.add_argument("--seed", type=int, required=True, help="seed of initialisation, dropout and order of data")
    parser.add_argument("--binarized", type=Path, metavar="RECORD", help="record of binarize")
    add_override_arguments(parser)
    parser.add_argument("--record", type=Path, help="where to write the record of the finished training")
    parser.add_argument("--runs-folder", type=Path, default=Path("runs"), help="folder of runs (default: runs)")
    parser.add_argument(
        "--launcher", default="local", choices=LAUNCHERS, help="local (default), slurm, or debug (in this process)"
    )
    parser.add_argument(
        "--cluster", metavar="NAME", help="for slurm: a file of workflow/config/clusters; it sets the number of ranks"
    )
    parser.add_argument("--dry-run", action="store_true", help="for slurm: print the sbatch file, submit nothing")
    parser.add_argument(
        "--num-models", type=positive, default=1, metavar="N", help="number of model-only checkpoints to keep"
    )
    parser.add_argument(
        "--threads-per-rank", type=positive, default=1, help="CPU threads of each rank (default: 1; not for slurm)"
    )
    parser.add_argument(
        "--num-ranks", type=positive, default=1, help="processes that share each update (default: 1; not for slurm)"
    )
    parser.add_argument("--fresh", action="store_true", help="start anew; the earlier run is set aside")
    parser.add_argument(
        "--allow-long-runs",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="train even if more than 24 hours are predicted (default: refuse)",
    )


def _chosen_cluster(args: argparse.Namespace) -> ClusterSpec | None:
    """Return the cluster to train on, None for another launcher than slurm.

    Raises:
        UsageError: if slurm has no cluster, or another launcher is to print an sbatch file.
        ConfigError: if the cluster's file is at fault.
    """
    if args.launcher != "slurm":
        if args.dry_run:
            raise UsageError(f"--dry-run with --launcher {args.launcher}, which submits no file; take --launcher slurm")
        return None
    if args.cluster is None:
        raise UsageError("--launcher slurm: which cluster? `--cluster NAME`, a file of workflow/config/clusters")
    return read_cluster(args.cluster)


def run(args: argparse.Namespace) -> None:
    """Drive the training to its end, or print what would be submitted."""
    cluster = _chosen_cluster(args)
    if args.dry_run and cluster is not None:
        _print_sbatch_file(args, cluster)
        return
    for flag, path in (("--binarized", args.binarized), ("--record", args.record)):
        if path is None:
            raise UsageError(f"{flag} is missing; only --dry-run goes without it, see `aiayn train --help`")
    data = _read_data(args)
    request = _make_request(args, data, cluster)
    _check(args, request, data, cluster)
    drive(request, launcher=args.launcher, record_path=args.record, fresh=args.fresh, cluster=cluster)


def _print_sbatch_file(args: argparse.Namespace, cluster: ClusterSpec) -> None:
    """Print what sbatch would get; what only files decide that are not made yet is DIGEST, and said to be."""
    args.binarized = args.binarized or paths.corpus_record(Path("results"), args.scale, "binarize", args.corpus)
    is_missing = not args.binarized.exists()
    if is_missing:
        print(
            f"aiayn train: not there yet: {args.binarized}; DIGEST stands for the 8 digits that the content will "
            "decide, all else is as it will be",
            file=sys.stderr,
        )
    request = _make_request(args, None if is_missing else _read_data(args), cluster)
    check_precision(request, cluster)
    code = foresee_code(request, fresh=args.fresh)
    print(sbatch_text(msgspec.structs.replace(request, commit=code.commit), cluster, code.folder), end="")


def _check(
    args: argparse.Namespace, request: TrainingRequest, data: BinarizedCorpus, cluster: ClusterSpec | None
) -> None:
    """Say what the run will take, unless it is done; of a cluster only the disk and its file are known from here."""
    if not args.fresh and is_done(Path(request.run_folder)):
        return
    if cluster is not None:
        check_precision(request, cluster)
        check_space(request, data)
    else:
        check_feasible(request, data, scale=args.scale, allow_long_runs=args.allow_long_runs)


def _read_data(args: argparse.Namespace) -> BinarizedCorpus:
    """Return the record of the data-bin, which is as it says."""
    data = read_record(args.binarized, BinarizedCorpus)
    require_recorded_data_bin(data)
    return data


def _run_name(args: argparse.Namespace, training: TrainingSpec, data: BinarizedCorpus | None) -> str:
    """Return the run's name, which ends in DIGEST while what it is of is not there."""
    name = run_name(
        corpus=args.corpus,
        system=args.system,
        seed=args.seed,
        training=training,
        data_digest=data.digest if data else "",
        stage_version=STAGE_VERSIONS["train"],
    )
    return name if data else f"{name.rpartition('-')[0]}-DIGEST"


def _promised_data(corpus_name: str) -> TrainingData:
    """Return what is known of a data-bin before it is made.

    Raises:
        ConfigError: if there is no such corpus.
    """
    corpus = read_corpus(corpus_name)
    return TrainingData(
        folder="",
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        is_joint=False,
    )


def _make_request(
    args: argparse.Namespace, data: BinarizedCorpus | None, cluster: ClusterSpec | None
) -> TrainingRequest:
    """Return what to train, or without data what to print; a cluster decides how many ranks and threads there are."""
    num_ranks = cluster.num_ranks if cluster else args.num_ranks
    system = overridden(read_system(args.system, args.scale), named_overrides(args))
    refuse_untrainable(args.system, system.training, num_ranks=num_ranks)
    run = _run_name(args, system.training, data)
    return TrainingRequest(
        run=run,
        run_folder=str((args.runs_folder / run).absolute()),
        corpus=args.corpus,
        system=args.system,
        seed=args.seed,
        training=system.training,
        data=training_data(data) if data else _promised_data(args.corpus),
        binarized_path=str(args.binarized.absolute()),
        num_models=args.num_models,
        num_ranks=num_ranks,
        threads_per_rank=cluster.cpus_per_rank if cluster else args.threads_per_rank,
        commit=commit_label(),
        command=shlex.join(["aiayn", *sys.argv[1:]]),
    )
