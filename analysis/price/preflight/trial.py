"""Tests the nodes of a cluster with a short training on made-up data (a trial): submits the job,
waits for it, and reports the result.

The job trains the first system of the config, in its real size and with its real batches, so the
milliseconds per update can be compared with the plan. The training data of the trial is random
words, so nothing is downloaded.
"""

import os
import time
from pathlib import Path

import msgspec
import numpy as np

from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.encoder import WordEncoder
from aiayn.errors import LaunchError
from aiayn.experiment import Experiment
from aiayn.launch.code_snapshot import take_snapshot
from aiayn.launch.slurm.launcher import SlurmLauncher
from aiayn.plan.prediction import Hours, predict_speed
from aiayn.provenance import commit_label, file_sha256, gather_provenance
from aiayn.records import BinarizedCorpus, ParallelText, TextPair, write_record
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.corpus import CorpusSpec
from aiayn.spec.training import TrainingSpec
from aiayn.train.request import TrainingRequest
from aiayn.train.trial_result import RESULT_NAME, SAME_UPDATES, TrialResult
from analysis.price.plan import Plan
from analysis.price.preflight.checks import Check
from analysis.price.preflight.slurm import preflight_request

UPDATES_ON_GPUS, UPDATES_ON_CPUS = 60, 20
JOB_MINUTES = 20
POLL_SECONDS = 2.0
SHOWN_LINES = 3  # of a failed job's output
WORDS_PER_SENTENCE = 28  # about WMT14's mean
TEST_PAIRS = 20


def try_training(
    experiment: Experiment, cluster: ClusterSpec, plan: Plan, *, wait_minutes: float
) -> list[Check]:
    """Submit a job with all ranks (processes) of a training, wait for the job, and return the
    checks of its result.

    A job that waits in the queue for longer than `wait_minutes` is cancelled.
    """
    # The process number keeps two trials apart.
    folder = Path(experiment.scale.runs_folder).absolute() / f"preflight-{os.getpid()}"
    request = preflight_request(experiment, cluster)
    is_on_gpus = cluster.gpus_per_node > 0
    updates = UPDATES_ON_GPUS if is_on_gpus else UPDATES_ON_CPUS
    # Only one checkpoint is saved, at the end, because the trial measures updates and not the disk.
    # The spec does not allow patience together with `save_interval_updates`.
    training = msgspec.structs.replace(
        request.training,
        updates=updates,
        save_interval_updates=updates,
        patience_epochs=None,
        device="auto" if is_on_gpus else "cpu",
    )
    vocabulary_size = plan.corpora[0].vocabulary_size
    data = make_data(folder, experiment.corpora[request.corpus], training, vocabulary_size)
    request = msgspec.structs.replace(
        request,
        run=folder.name,
        run_folder=str(folder),
        corpus=data.corpus,
        training=training,
        data_folder=str(data.folder.absolute()),
        source_language=data.source_language,
        target_language=data.target_language,
        is_joint=data.is_joint,
        binarized_path=str(folder / "data" / "record.json"),
        commit=commit_label(),
        command="aiayn preflight --train",
        work="aiayn.train.trial:try_node",
    )
    speed = predict_speed(training, vocabulary_size, plan.machine, system=request.system)
    # A short job starts earlier in most queues, and a trial that hangs ends by itself.
    cluster = msgspec.structs.replace(cluster, time_limit_minutes=JOB_MINUTES, max_num_jobs=1)
    try:
        launcher = SlurmLauncher(request, cluster)
        job = launcher.submit(request, take_snapshot(folder.parent))
        evidence = _wait(launcher, request, job, wait_minutes)
    except LaunchError as error:
        return [Check("trial", "FAIL", str(error), f"the logs are in {folder}")]
    result = msgspec.json.decode((folder / RESULT_NAME).read_bytes(), type=TrialResult)
    return [Check("trial", "OK", evidence), *judge(result, training, speed.formula)]


def _wait(launcher: SlurmLauncher, request: TrainingRequest, job: str, wait_minutes: float) -> str:
    """Wait for the result of the trial's job. Return a sentence that says where the job ran and for
    how long.

    Raises:
        LaunchError: if the job waited too long in the queue and was cancelled, or ended without a
            result.
    """
    # The result is a file on the shared file system, which the job writes last.
    result_path = request.folder.path / RESULT_NAME
    begin = started = time.monotonic()
    node = ""
    try:
        while not result_path.exists():
            queued = {found.job: found for found in launcher.find(request.run)}.get(job)
            if queued is None or queued.state == "ended":
                # The job may have ended between the two looks, with its result.
                if result_path.exists():
                    break
                end = launcher.outcome(job, queued)
                lines = " / ".join(request.folder.job_output(job, SHOWN_LINES))
                raise LaunchError(f"job {job} {end.words} without a result; {end.failure}{lines}")
            if queued.state == "running":
                node = queued.node
            else:
                # `started` moves forward at each look while the job waits, so it is at most
                # POLL_SECONDS too early.
                started = time.monotonic()
                if started - begin > 60 * wait_minutes:
                    raise LaunchError(
                        f"job {job} waited longer than {wait_minutes:g} minutes (--wait) and was"
                        f" cancelled: {queued.words} {queued.advice}".rstrip()
                    )
            time.sleep(POLL_SECONDS)
    # BaseException includes Ctrl-C. Nobody would read the result of a job that goes on.
    except BaseException:
        launcher.cancel(request.run)
        raise
    waited, ran = started - begin, time.monotonic() - started
    return f"job {job} on {node or 'a node'}: {waited:.0f} s in the queue, then {ran:.0f} s"


def judge(result: TrialResult, training: TrainingSpec, formula: Hours | None) -> list[Check]:
    """Return the checks of a trial's result. `formula` has the predicted hours for the updates of
    the trial.
    """
    ranks = f"{result.num_ranks} ranks"
    backend = "NCCL" if result.device == "cuda" else "gloo"
    checks = [
        Check("collectives", "OK", f"a known tensor summed over {ranks} by {backend}, each start"),
        _compare("resume", f"TERM after update {result.stopped_at}", result.resumed_difference),
        _compare("ranks", f"1 rank against {ranks}, no dropout", result.one_rank_difference),
    ]
    measured = 1000 * result.seconds_per_update
    evidence = f"{measured:.3g} ms an update"
    if formula is None:
        return [*checks, Check("speed", "OK", f"{evidence}; the plan has no hours for this GPU")]
    # 3.6e6 milliseconds are an hour.
    least, most = (3.6e6 * hours / training.updates for hours in (formula.least, formula.most))
    evidence += f", by the plan's formula {least:.3g} to {most:.3g}"
    if measured <= 1.5 * most:
        return [*checks, Check("speed", "OK", evidence)]
    advice = (
        f"{measured / most:.1f} times the formula's worst: other jobs on the node, too few CPUs a"
        " rank (cpus_per_rank), a slow link; docs/checks.md has published speeds"
    )
    return [*checks, Check("speed", "WARN", evidence, advice)]


def _compare(name: str, comparison: str, difference: float) -> Check:
    """Return the check that two trainings of the trial ended with the same parameters of the
    model.
    """
    evidence = (
        f"{comparison}: parameters differ by {difference:.2g} of the distance that the training has"
        f" moved them, at most {SAME_UPDATES:g} expected"
    )
    if difference <= SAME_UPDATES:
        return Check(name, "OK", evidence)
    return Check(name, "FAIL", evidence, "report it with GPU, torch and the folder's logs")


def make_data(
    folder: Path, corpus: CorpusSpec, training: TrainingSpec, vocabulary_size: int
) -> BinarizedCorpus:
    """Write a data-bin of random words, large enough for all updates of a training, and return its
    record. The data-bin has the languages and test sets of `corpus`.
    """
    spec = msgspec.structs.replace(corpus, name="made_up", further_testsets=[])
    # Each trial has the same random words, so that two trials can be compared.
    rng = np.random.default_rng(1)
    tokens = training.updates * training.max_tokens_per_batch * training.batches_per_update
    # Batches are not full, so there is a fifth more data than the updates need.
    num_pairs = max(200, round(1.2 * tokens / WORDS_PER_SENTENCE))
    # Lengths are uniform from 1 to `longest`, so their mean is about WORDS_PER_SENTENCE. A sentence
    # longer than a batch would be an error in fairseq.
    longest = min(2 * WORDS_PER_SENTENCE, training.max_tokens_per_batch // 2)
    folder.mkdir(parents=True, exist_ok=True)
    pair_by_split = {}
    for split in ("train", *spec.testsets):
        lengths = rng.integers(1, longest, num_pairs if split == "train" else TEST_PAIRS)
        path_by_language = {name: folder / f"{split}.{name}" for name in spec.languages}
        # Both sides of a pair have the same length, but different words.
        for path in path_by_language.values():
            rows = (rng.integers(0, vocabulary_size, length) for length in lengths)
            path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows), "utf-8")
        pair_by_split[split] = TextPair(
            path_by_language=path_by_language,
            num_lines=len(lengths),
            sha256_by_language={k: file_sha256(path) for k, path in path_by_language.items()},
        )
    text = ParallelText(
        provenance=gather_provenance([]),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        num_pairs=num_pairs,
        num_dropped_by_reason={},
    )
    record_path = folder / "data" / "record.json"
    # The tokens are whole words, so the trial works without a subword model.
    encoders = dict.fromkeys(spec.languages, WordEncoder())
    record = binarize_corpus(spec, text, encoders, record_path=record_path)
    write_record(record, record_path)
    return record
