"""Average the checkpoints of one training, then decode, measure perplexity and score, in one
process.

--record is the path of a list of all records that this verb makes, with their SHA-256. The list is
written last. The records are in `average/`, `decode/`, `perplexity/` and `score/` of the same
`results/<scale>/`, as the four verbs with these names write them. An existing record is kept if its
inputs, the version of its stage, the settings of the beam search and its files have not changed. If
one of them has changed, the record is made again. An error in one test set does not stop the
evaluation of the other test sets. After an error the list is not written, and the same command
makes the missing records.

`aiayn evaluate` translates and scores with a checkpoint that was not trained by this workflow.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from aiayn.cli.average import average_run
from aiayn.cli.decode import decode_testset, searched_as
from aiayn.cli.flags import BINARIZED, DEVICE, RUNS_FOLDER, SYSTEM_SCALE, THREADS, Device, flag
from aiayn.cli.perplexity import measure_testset
from aiayn.cli.score import score_run
from aiayn.engine_import import engine_import
from aiayn.errors import AiaynError, EvaluationError, RecordError, UsageError
from aiayn.packed import file_problem
from aiayn.paths import (
    Evaluation,
    average_record,
    evaluation_record,
    evaluations_record,
    num_averaged,
)
from aiayn.provenance import file_sha256, gather_provenance
from aiayn.records import (
    CheckpointRecord,
    EvaluationsRecord,
    Hypotheses,
    PerplexityRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
    recorded_files,
    write_record,
)
from aiayn.spec.system import read_system
from aiayn.stages import EVALUATION_VERSIONS, STAGE_VERSIONS

EXAMPLE = (
    "aiayn evaluations --scale demo --train results/demo/train/demo_en_de/base/seed1.json"
    " --binarized results/demo/binarize/demo_en_de/record.json --raw"
    " results/demo/fetch/demo_en_de/record.json --decode last1/demo_dev last5/demo_test"
    " --perplexity last1/demo_dev --record results/demo/evaluations/demo_en_de/base/seed1.json"
)

logger = logging.getLogger(__name__)


class Flags:
    scale: str = SYSTEM_SCALE
    train: Path = flag("record of train", "RECORD")
    binarized: Path = BINARIZED
    raw: Path = flag("record of fetch, which has the references", "RECORD")
    decode: list[str] = flag(
        "average and test set to translate and score, as last5/demo_test; demo_dev-alpha1.4 is"
        " demo_dev with 1.4 for the system's alpha",
        "AVERAGE/TESTSET",
    )
    perplexity: list[str] | None = flag(
        "average and test set to measure perplexity on", "AVERAGE/TESTSET"
    )
    runs_folder: Path = RUNS_FOLDER
    record: Path = flag("the list to write: results/<scale>/evaluations/.../seed1.json")
    device: Device = DEVICE
    threads: int = THREADS


class _EvaluationStage(NamedTuple):
    """A stage of an evaluation: the path of its record, its input files, and the function that
    makes the record.

    `fits` returns whether an existing record was made with the present settings.
    """

    verb: str
    path: Path
    record_type: type[Record]
    input_paths: Sequence[Path]
    make: Callable[[], None]
    fits: Callable[[Any], bool] = lambda _: True

    def is_current(self) -> bool:
        """Return whether the record exists and is up to date.

        A record of an average that an earlier version made does not list its inputs. Such a record
        is up to date if it is newer than its inputs. `_is_average_due` checks the checkpoint of an
        average.
        """
        try:
            record = read_record(self.path, self.record_type)
        # A record that is absent, torn or of an earlier schema is made again.
        except RecordError:
            return False
        # A record of an earlier version does not contain the version of its stage.
        # EVALUATION_VERSIONS has the versions of that time.
        version = record.provenance.stage_version or EVALUATION_VERSIONS[self.verb]
        if version != STAGE_VERSIONS[self.verb] or not self.fits(record):
            return False
        # Digests without paths: in a copied folder the same inputs have other paths.
        recorded = sorted(record.provenance.input_sha256_by_path.values())
        if recorded:
            is_of_inputs = recorded == sorted(map(file_sha256, self.input_paths))
        else:
            # Without digests the times of the files decide, as they do in Snakemake.
            newest = max(path.stat().st_mtime_ns for path in self.input_paths)
            is_of_inputs = self.path.stat().st_mtime_ns >= newest
        # The checkpoint of an average is large and may be absent on purpose: see `_is_average_due`.
        if not is_of_inputs or isinstance(record, CheckpointRecord):
            return is_of_inputs
        # A translation that was edited since is made again.
        return not any(file_problem(*recorded) for recorded in recorded_files(record).items())


def run(args: Flags) -> None:
    """Make the records that are missing or out of date, then write the list of all records.

    Raises:
        UsageError: if an evaluation is misspelt, or --record is not the path of the list of this
            training.
        EvaluationError: if evaluations failed. The message has the names of the failed evaluations.
            The records of all other evaluations have been made.
    """
    train = read_train_record(args.train, args.runs_folder)
    # The workflow lists an evaluation with a perplexity in both flags. It is made once.
    evaluation_names = list(dict.fromkeys([*args.decode, *(args.perplexity or ())]))
    _check_names(args, train, evaluation_names)
    paths: list[Path] = []
    message_by_word: dict[str, str] = {}
    # By average, because all test sets of an average need the same checkpoint.
    for average in dict.fromkeys(word.partition("/")[0] for word in evaluation_names):
        of_average = [word for word in evaluation_names if word.startswith(f"{average}/")]
        averaged = _average_stage(args, train, average)
        # Lists, because they are read twice: to see whether the average is needed, and to run them.
        stages_by_word = {word: list(_stages(args, train, word, averaged)) for word in of_average}
        with _noted(message_by_word, of_average):
            if _is_average_due(train, averaged, chain(*stages_by_word.values())):
                _make(averaged, average)
        paths.append(averaged.path)
        for word, stages in stages_by_word.items():
            paths += [stage.path for stage in stages]
            # The average of this evaluation has failed, so its stages are left out.
            if word in message_by_word:
                continue
            with _noted(message_by_word, [word]):
                for stage in stages:
                    # Checked one by one: a new translation makes its score out of date.
                    if not stage.is_current():
                        _make(stage, word)
    # Without the list the rule has failed, so Snakemake calls the same command next time.
    if message_by_word:
        messages = "; ".join(dict.fromkeys(message_by_word.values()))
        raise EvaluationError(
            f"{args.record}: not written, because {len(message_by_word)} of {len(evaluation_names)}"
            f" evaluations failed ({', '.join(message_by_word)}); the others are made, and the same"
            f" command makes what is missing: {messages}"
        )
    record = EvaluationsRecord(
        provenance=gather_provenance([args.train, args.binarized, args.raw], stage="evaluations"),
        run=train.run,
        sha256_by_record={path: file_sha256(path) for path in paths},
    )
    write_record(record, args.record)


def _check_names(args: Flags, train: TrainRecord, evaluation_names: Sequence[str]) -> None:
    """Require that evaluations have the form `average/testset`, and that --record is the path of
    this training's list, from which all other paths are derived.
    """
    for word in evaluation_names:
        average, _, testset = word.partition("/")
        if num_averaged(average) < 1 or not testset or "/" in testset:
            raise UsageError(f"{word!r}: expected an average and a test set, as last5/demo_test")
    # The folder of the scale follows from this path, so a wrong one would scatter records.
    expected = evaluations_record(Path(), args.scale, train.corpus, train.system, train.seed)
    if args.record.parts[-len(expected.parts) :] != expected.parts:
        raise UsageError(
            f"--record {args.record}: expected a path that ends in {expected}: the records of the"
            f" evaluations are written into the same folder {args.scale}"
        )


def _average_stage(args: Flags, train: TrainRecord, average: str) -> _EvaluationStage:
    last = num_averaged(average)
    updates = [model.update for model in train.models[-last:]]
    training = (train.corpus, train.system, train.seed)
    # The fifth folder above `results/<scale>/evaluations/<corpus>/<system>/seed1.json`.
    path = average_record(args.record.parents[4], args.scale, *training, average)
    return _EvaluationStage(
        "average",
        path,
        CheckpointRecord,
        [args.train],
        partial(average_run, args.train, args.runs_folder, last, path),
        # A training for more updates has the same path, but a different run and other checkpoints.
        lambda record: (record.run, record.averaged_updates) == (train.run, updates),
    )


def _stages(
    args: Flags, train: TrainRecord, word: str, averaged: _EvaluationStage
) -> Iterator[_EvaluationStage]:
    """Yield the stages of an evaluation that follow the average, in the order in which they run."""
    average, _, testset = word.partition("/")
    evaluation = Evaluation(
        corpus=train.corpus,
        system=train.system,
        seed=train.seed,
        average=average,
        testset=testset,
        # Both decide which tables show the evaluation, and do not occur in paths.
        role="",
        language_pair="",
    )
    record_path = partial(
        evaluation_record, args.record.parents[4], args.scale, evaluation=evaluation
    )
    on_testset = (averaged.path, args.binarized, testset)
    translate = partial(decode_testset, device=args.device, threads=args.threads)
    measure = partial(measure_testset, device=args.device, threads=args.threads)
    if word in args.decode:
        decoding = read_system(train.system, args.scale).decoding
        # The settings of the search are not an input file, so the digests do not show that they
        # changed.
        signature = searched_as(decoding, testset).signature
        path = record_path(verb="decode")
        yield _EvaluationStage(
            "decode",
            path,
            Hypotheses,
            on_testset[:2],
            partial(translate, *on_testset, path, decoding=decoding),
            lambda record: record.signature == signature,
        )
    if word in (args.perplexity or ()):
        path = record_path(verb="perplexity")
        yield _EvaluationStage(
            "perplexity",
            path,
            PerplexityRecord,
            on_testset[:2],
            partial(measure, *on_testset, path),
        )
    # The score comes last. Its input is the record of decode above.
    if word in args.decode:
        inputs = (record_path(verb="decode"), args.raw)
        path = record_path(verb="score")
        yield _EvaluationStage(
            "score", path, ScoreRecords, inputs, partial(score_run, *inputs, path)
        )


def _is_average_due(
    train: TrainRecord, averaged: _EvaluationStage, stages: Iterable[_EvaluationStage]
) -> bool:
    """Return whether an average must be made: its record is out of date, its checkpoint is absent,
    or its checkpoint is damaged and a later stage must read it.

    If the results were copied without runs and checkpoints, an absent checkpoint matters only if a
    stage of an evaluation must read it.
    """
    if not averaged.is_current():
        return True
    record = read_record(averaged.path, CheckpointRecord)
    # If the run's folder is here, a lost checkpoint is made again, because the record lists it.
    if train.run_folder.is_dir() and not record.path.exists():
        return True
    # Scores need only translations, which may have been copied without the checkpoint.
    if all(stage.verb == "score" or stage.is_current() for stage in stages):
        return False
    # Imported only here: reading a checkpoint needs torch, and most calls find everything done.
    from aiayn.train.checkpoints import checkpoint_problem

    return checkpoint_problem(record.path, record.tensors_sha256) != ""


def _make(stage: _EvaluationStage, word: str) -> None:
    logger.info(f"{word}: {stage.verb}")
    # A score needs neither torch nor fairseq, and may be made where they are not installed.
    if stage.verb != "score":
        with engine_import():
            import aiayn.decode.decode
            import aiayn.train.average  # noqa: F401 -- the verbs import them again
    stage.make()


@contextlib.contextmanager
def _noted(message_by_word: dict[str, str], words: Sequence[str]) -> Iterator[None]:
    """Catch an error that is raised in the with block, log it, and store its message for each
    evaluation in `words`, such as `last5/demo_test`. After an error in the with block, the other
    evaluations can still be made.

    An error about a package that is not installed is not caught, because `aiayn` prints which
    package to install.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        # The message of our own errors and of the system is enough. Any other error is a mistake in
        # the program, and its traceback is logged.
        is_explained = isinstance(error, AiaynError | OSError)
        message = str(error) if is_explained else f"{type(error).__name__}: {error}"
        logger.error(f"{', '.join(words)}: {message}", exc_info=not is_explained)
        message_by_word |= dict.fromkeys(words, message)
