"""Submits a job that tries a whole node on made-up data, waits for it, and says what it found.

The system is the first of the config, in its own size and batches, so that its milliseconds an
update can stand next to the plan. The data is words drawn at random: nothing is downloaded.
"""

import os
import time
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.encoder import WordEncoder
from aiayn.errors import LaunchError
from aiayn.experiment import Experiment
from aiayn.launch.code_snapshot import take_snapshot
from aiayn.launch.job import TrialJob
from aiayn.launch.slurm.launcher import SlurmLauncher
from aiayn.plan.prediction import predict_speed
from aiayn.provenance import commit_label, file_sha256, gather_provenance
from aiayn.records import BinarizedCorpus, ParallelText, TextPair, write_record
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.corpus import CorpusSpec
from aiayn.spec.training import TrainingSpec
from aiayn.train.fairseq_args import training_data
from aiayn.train.request import TrainingRequest
from aiayn.train.trial_result import RESULT_NAME, TrialResult
from analysis.price.plan import Plan
from analysis.price.preflight.checks import Check

UPDATES_ON_GPUS, UPDATES_ON_CPUS = 60, 20
JOB_MINUTES = 20
POLL_SECONDS = 2.0
WORDS_PER_SENTENCE = 28.0  # about WMT14's mean
MAX_WORDS = 100
TEST_PAIRS = 20
# Of all parameters' length. With other sentences it would be a hundred times as much.
SAME_UPDATE_FP32, SAME_UPDATE = 1e-3, 5e-2
RESUMED = 1e-3


def try_training(
    experiment: Experiment, cluster: ClusterSpec, plan: Plan, *, wait_minutes: float
) -> list[Check]:
    """Return the checks of a job of all ranks of a training, submitted now.

    A job that waits longer than `wait_minutes` is cancelled.
    """
    folder = Path(experiment.scale.runs_folder).absolute() / f"preflight-{os.getpid()}"
    name, system = next(iter(experiment.system_by_name.items()))
    is_on_gpus = cluster.gpus_per_node > 0
    updates = UPDATES_ON_GPUS if is_on_gpus else UPDATES_ON_CPUS
    training = msgspec.structs.replace(
        system.training,
        updates=updates,
        save_interval_updates=updates,
        patience_epochs=None,
        device="auto" if is_on_gpus else "cpu",
    )
    planned = plan.trainings[0]
    corpus = experiment.corpora[planned.corpus]
    data = make_data(folder, corpus, training, plan.corpora[0].vocabulary_size)
    request = TrainingRequest(
        run=folder.name,
        run_folder=str(folder),
        corpus=data.corpus,
        system=name,
        seed=1,
        training=training,
        data=training_data(data),
        binarized_path=str(folder / "data" / "record.json"),
        num_models=1,
        num_ranks=cluster.num_ranks,
        threads_per_rank=cluster.threads_per_rank,
        commit=commit_label(),
        command="aiayn preflight --train",
    )
    speed = predict_speed(
        training, plan.corpora[0].vocabulary_size, plan.machine, system=planned.system
    )
    cluster = msgspec.structs.replace(cluster, time_limit_minutes=JOB_MINUTES, max_num_jobs=1)
    launcher = SlurmLauncher(request, cluster)
    try:
        code_folder = take_snapshot(folder.parent)
        job = launcher.submit(request, code_folder, job_type=TrialJob)
        words = _wait(launcher, folder, job, wait_minutes)
    except LaunchError as error:
        return [Check("trial", "FAIL", str(error), f"the logs are in {folder}")]
    result = msgspec.json.decode((folder / RESULT_NAME).read_bytes(), type=TrialResult)
    milliseconds = [
        1000 * 3600 * hours / updates
        for hours in ((speed.formula.least, speed.formula.most) if speed.formula else ())
    ]
    return [Check("trial", "OK", words), *judge(result, training.precision, milliseconds)]


def _wait(launcher: SlurmLauncher, folder: Path, job: str, wait_minutes: float) -> str:
    """Wait for the job's end and return what happened, in words.

    Raises:
        LaunchError: if it waited too long and was cancelled, or ended without a result.
    """
    begin = time.monotonic()
    started: float | None = None
    queued: QueuedJob | None = None
    try:
        while not (folder / RESULT_NAME).exists():
            found = [one for one in launcher.find(folder.name) if one.job == job]
            queued = found[-1] if found else None
            if queued is None or queued.state == "ended":
                if (folder / RESULT_NAME).exists():
                    break
                ended = launcher.outcome(job, queued)
                raise LaunchError(
                    f"job {job} {ended.words} without a result; {ended.failure or ended.advice}"
                    f" last lines: {_last_lines(folder)}"
                )
            if queued.state == "running" and started is None:
                started = time.monotonic()
            if started is None and time.monotonic() - begin > 60 * wait_minutes:
                raise LaunchError(
                    f"job {job} waited longer than {wait_minutes:g} minutes (--wait) and was"
                    f" cancelled: {queued.words} {queued.advice}".rstrip()
                )
            time.sleep(POLL_SECONDS)
    except BaseException:
        launcher.cancel(folder.name)
        raise
    waited = (started or time.monotonic()) - begin
    node = queued.node if queued else ""
    return (
        f"job {job} on {node or 'a node'}: {waited:.0f} s in the queue, then"
        f" {time.monotonic() - begin - waited:.0f} s"
    )


def _last_lines(folder: Path) -> str:
    """Return the end of the first rank's log."""
    logs = sorted((folder / "submitit").glob("*_0_log.out"))
    text = logs[-1].read_text(encoding="utf-8", errors="replace") if logs else "no log"
    return " / ".join(text.strip().splitlines()[-3:])


def judge(result: TrialResult, precision: str, milliseconds: list[float]) -> list[Check]:
    """Return the checks of a trial's result; `milliseconds` an update are the plan's least and
    most, or empty.
    """
    ranks = f"{result.num_ranks} ranks"
    backend = "NCCL" if result.device == "cuda" else "gloo"
    evidence = f"a known tensor summed over {ranks} by {backend}, at each start"
    checks = [Check("collectives", "OK", evidence)]
    evidence = f"TERM after update {result.stopped_at}, resumed: "
    if result.resumed_difference == 0.0:
        checks.append(Check("resume", "OK", f"{evidence}the undisturbed training's tensors"))
    else:
        outcome: Literal["WARN", "FAIL"] = "WARN"
        if result.resumed_difference > RESUMED:
            outcome = "FAIL"
        evidence += f"parameters differ by {result.resumed_difference:.1e} of their length"
        advice = "a resumed training is not exact to the bit here: report it with GPU and torch"
        checks.append(Check("resume", outcome, evidence, advice))
    bound = SAME_UPDATE_FP32 if precision == "fp32" else SAME_UPDATE
    evidence = (
        f"1 rank against {ranks}, without dropout: parameters differ by"
        f" {result.one_rank_difference:.1e} of their length, at most {bound:g} expected"
    )
    is_same = result.one_rank_difference <= bound
    advice = "" if is_same else "the ranks do not make one update together: report it"
    checks.append(Check("ranks", "OK" if is_same else "FAIL", evidence, advice))
    measured = 1000 * result.seconds_per_update
    evidence = f"{measured:.3g} ms an update"
    if not milliseconds:
        return [*checks, Check("speed", "OK", f"{evidence}; the plan has no hours for this GPU")]
    least, most = milliseconds
    evidence += f", by the plan's formula {least:.3g} to {most:.3g}"
    if measured <= 1.5 * most:
        return [*checks, Check("speed", "OK", evidence)]
    advice = (
        f"{measured / most:.1f} times the formula's worst: other jobs on the node, too few CPUs a"
        " rank (cpus_per_rank), a slow link; docs/checks.md has published speeds"
    )
    return [*checks, Check("speed", "WARN", evidence, advice)]


def make_data(
    folder: Path, corpus: CorpusSpec, training: TrainingSpec, vocabulary_size: int
) -> BinarizedCorpus:
    """Write a data-bin of random words for all updates of a training, with the names of a corpus,
    and return its record.
    """
    spec = msgspec.structs.replace(corpus, name="made_up", further_testsets=[])
    rng = np.random.default_rng(1)
    tokens = training.updates * training.max_tokens_per_batch * training.batches_per_update
    num_pairs = max(200, round(1.2 * tokens / WORDS_PER_SENTENCE))
    text_folder = folder / "text"
    text_folder.mkdir(parents=True, exist_ok=True)
    longest = min(MAX_WORDS, training.max_tokens_per_batch // 2)
    pair_by_split = {}
    for split, number in {"train": num_pairs, **dict.fromkeys(spec.testsets, TEST_PAIRS)}.items():
        lengths = np.clip(rng.gamma(2.5, WORDS_PER_SENTENCE / 2.5, number), 1, longest).astype(int)
        path_by_language = {}
        for language in spec.languages:
            path = text_folder / f"{split}.{language}"
            words = rng.integers(0, vocabulary_size, int(lengths.sum()))
            lines = []
            for sentence in np.split(words, lengths.cumsum()[:-1]):
                lines.append(" ".join(f"w{word}" for word in sentence) + "\n")
            path.write_text("".join(lines), encoding="utf-8")
            path_by_language[language] = path
        pair_by_split[split] = TextPair(
            path_by_language=path_by_language,
            num_lines=number,
            sha256_by_language={k: file_sha256(path) for k, path in path_by_language.items()},
        )
    text = ParallelText(
        provenance=gather_provenance([]),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        num_pairs=num_pairs,
        num_dropped_by_reason={},
    )
    encoder = WordEncoder()
    record_path = folder / "data" / "record.json"
    encoders = dict.fromkeys(spec.languages, encoder)
    record = binarize_corpus(spec, text, encoders, record_path=record_path)
    write_record(record, record_path)
    return record
