"""Train one system on one corpus with one seed (section 5). If this training was interrupted,
resume it. If this training is running already, wait for it.

The folder of the run, `<runs folder>/<corpus>-<system>-seed<k>-<digest8>/`, contains checkpoints,
fairseq's JSON log and attempts.jsonl. Ctrl-C saves a checkpoint and ends the training. The same
command resumes the training. On a cluster the job continues after this command has ended, and the
same command waits for the job again. --dry-run does not read the data, so it works without
--binarized and --record. --dry-run prints DIGEST in place of the 8 digits at the end of the run's
name, because these digits depend on the data. Exit code 3: the run failed or was cancelled, and no
record was written.
"""

import argparse
import shlex
import sys
from pathlib import Path

from aiayn.cli.flags import (
    BINARIZED,
    PRECISION,
    RUNS_FOLDER,
    SYSTEM_SCALE,
    UPDATES,
    flag,
    num_threads,
    positive,
    seed,
)
from aiayn.errors import RecordError, UsageError
from aiayn.experiment import num_kept
from aiayn.launch.beginning import begun_from
from aiayn.launch.code_snapshot import snapshot_folder
from aiayn.launch.driver import drive
from aiayn.launch.launcher import CLUSTER_LAUNCHERS, LauncherName, make_launcher
from aiayn.paths import corpus_record
from aiayn.plan.feasibility import check_evaluations, check_feasible, check_precision, make_request
from aiayn.records import BinarizedCorpus, read_record, read_train_record, require_fitting
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.system import Overrides, read_corpus
from aiayn.spec.training import Precision

EXAMPLE = (
    "aiayn train --scale demo --corpus demo_en_de --system base --seed 1 --binarized"
    " results/demo/binarize/demo_en_de/record.json --record"
    " results/demo/train/demo_en_de/base/seed1.json"
)


class Flags:
    scale: str = SYSTEM_SCALE
    corpus: str = flag("a corpus of workflow/config/corpora")
    system: str = flag("a system of workflow/config/systems/<scale>")
    seed: int = flag("seed of initialisation, dropout and order of data", type=seed)
    binarized: Path | None = BINARIZED
    begin_from: Path | None = flag(
        "record of the shorter training that a system with `begins_from` continues", "RECORD"
    )
    updates: int | None = UPDATES
    precision: Precision | None = PRECISION
    record: Path | None = flag("where to write the record of the finished training")
    runs_folder: Path = RUNS_FOLDER
    launcher: LauncherName = flag(
        "local (default), slurm, or debug (in this process)", default="local"
    )
    cluster: str | None = flag(
        "for slurm: a file of workflow/config/clusters; it sets the number of ranks", "NAME"
    )
    dry_run: bool = flag("for a cluster: print what would be submitted")
    num_models: int | None = flag(
        "number of model-only checkpoints to keep (default: what the tables average)",
        "N",
        type=positive,
    )
    threads_per_rank: int = flag(
        "CPU threads of each rank (default: 1; not for slurm)", type=num_threads, default=1
    )
    num_ranks: int = flag(
        "processes that share each update (default: 1; not for slurm)", type=positive, default=1
    )
    fresh: bool = flag("start from update 0; the earlier run is set aside")
    allow_long_runs: bool = flag(
        "train even if more than 24 hours are predicted (default: refuse)",
        default=False,
        action=argparse.BooleanOptionalAction,
    )


def _chosen_cluster(args: Flags) -> ClusterSpec | None:
    """Return the cluster to train on, or None if the launcher starts jobs on this machine.

    Raises:
        UsageError: if --cluster is missing for a launcher that submits jobs to a cluster, or if
            --dry-run is given for a launcher that starts jobs on this machine.
        ConfigError: if the file of the cluster has a mistake.
    """
    if args.launcher in CLUSTER_LAUNCHERS:
        if args.cluster is None:
            needs = f"--launcher {args.launcher} needs a cluster"
            raise UsageError(f"{needs}; add `--cluster NAME`, a file of workflow/config/clusters")
        # `cpus_per_rank: node` in a cluster's file becomes a number, which the request needs.
        from aiayn.launch.slurm.nodes import with_node_cpus

        return with_node_cpus(read_cluster(args.cluster))
    if args.dry_run:
        launchers = ", ".join(CLUSTER_LAUNCHERS)
        raise UsageError(
            f"--dry-run with --launcher {args.launcher}, which submits no file; add --launcher"
            f" {launchers}"
        )
    return None


def _check_beginning(args: Flags, begins_from: str | None) -> None:
    """Require the flag --begin-from if the system continues a different system's training. Refuse
    this flag for any other system.

    Raises:
        UsageError: if --begin-from is missing or superfluous.
    """
    if begins_from is None and args.begin_from is not None:
        raise UsageError(
            f"--begin-from is given, but {args.system} begins at update 0; remove the flag"
        )
    if begins_from is not None and args.begin_from is None and not args.dry_run:
        raise UsageError(
            f"{args.system} continues a training of {begins_from}; add `--begin-from RECORD`, the"
            f" record of {begins_from} with the same seed"
        )


def run(args: Flags) -> None:
    """Submit the jobs of the training and wait until it is finished. With --dry-run, print the job
    that would be submitted.
    """
    cluster = _chosen_cluster(args)
    data = None
    # A dry run works before the data exists. It shows the path that the workflow would use.
    binarized_path = args.binarized or corpus_record(
        Path("results"), args.scale, "binarize", args.corpus
    )
    if not args.dry_run:
        if args.binarized is None or args.record is None:
            name = "--binarized" if args.binarized is None else "--record"
            raise UsageError(
                f"{name} is missing; only --dry-run needs none; see `aiayn train --help`"
            )
        if not binarized_path.exists():
            raise RecordError(
                f"{binarized_path}: no such record; make the data first: `snakemake data --profile"
                f" profiles/local --configfile workflow/config/{args.scale}.yaml`"
            )
        data = read_record(binarized_path, BinarizedCorpus, "--binarized")
        require_fitting({"--binarized": data}, args.corpus)
        # A data-bin that changed since its record was written would train a different model under
        # the same run name.
        from aiayn.data.text.binarize import require_recorded_data_bin  # loads numpy

        require_recorded_data_bin(data)
    # The file of a cluster replaces both flags, which are for this machine only.
    num_ranks, threads_per_rank = args.num_ranks, args.threads_per_rank
    if cluster is not None:
        num_ranks, threads_per_rank = cluster.num_ranks, cluster.threads_per_rank
    request = make_request(
        args.scale,
        args.corpus,
        args.system,
        args.seed,
        data,
        binarized_path=binarized_path,
        runs_folder=args.runs_folder,
        overrides=Overrides(updates=args.updates, precision=args.precision),
        num_models=args.num_models or num_kept(read_corpus(args.corpus).language_pair, args.system),
        num_ranks=num_ranks,
        threads_per_rank=threads_per_rank,
        # The driver prints it when it ends early: the same command resumes the run.
        command=shlex.join(["aiayn", *sys.argv[1:]]),
    )
    # After the request, which has read the file of the system.
    _check_beginning(args, request.begins_from)
    if data is None or args.record is None:
        # A dry run works before the text is prepared. All other checks read the data.
        check_precision(request, cluster)
        launcher = make_launcher(args.launcher, request, cluster)
        # The path of the copy of the code is computed, but a dry run does not write files.
        print(launcher.preview(request, snapshot_folder(args.runs_folder)), end="")
        return
    if args.begin_from is not None:
        earlier = read_train_record(args.begin_from, args.runs_folder)
        request = begun_from(request, earlier, data)
    # A finished run is not trained again, so the machine need not fit it. Its record is copied.
    if args.fresh or not request.folder.is_done():
        # Mistakes that decoding or perplexity would report after days of training are reported now.
        check_evaluations(request, data, args.scale)
        check_feasible(
            request, data, scale=args.scale, allow_long_runs=args.allow_long_runs, cluster=cluster
        )
    drive(
        request, launcher=args.launcher, record_path=args.record, fresh=args.fresh, cluster=cluster
    )
