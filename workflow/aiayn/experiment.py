"""Expands a sheet, which lists the trainings of a scale (a size of the experiment), into trainings,
evaluations and the records that the tables need.

The rules of the workflow, the predicted cost and the tables all use this expansion, so that their
lists of trainings cannot differ. The expanded systems already contain the values that a scale sets
for all systems, such as `updates`. This module does not import pandas, so that the Snakefile loads
fast.
"""

import functools
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError, RecordError, TableError, UsageError
from aiayn.paths import (
    ALPHA_MARK,
    Evaluation,
    baselines_record,
    evaluation_record,
    evaluations_record,
    num_averaged,
    scale_record,
    split_alpha,
    train_record,
)
from aiayn.printed import (
    BASELINE_ROLE,
    COMPARED_AVERAGE,
    RepeatedRow,
    evaluations_of,
    is_asked_for,
    read_replications,
    read_sentences,
)
from aiayn.provenance import replace_on_success
from aiayn.records import TrainRecord, read_record
from aiayn.spec.sheet import (
    REPLICATIONS,
    SHEET_NAME,
    SheetRow,
    TrainingKey,
    join_sheets,
    list_trainings,
    read_sheet,
    sheet_text,
)
from aiayn.spec.system import (
    CONFIG_FOLDER,
    CorpusSpec,
    ScaleSpec,
    SystemSpec,
    overridden,
    read_corpus,
    read_system,
)
from aiayn.wings import asked_stages


# `dict=True`, because cached_property stores its value in `__dict__`, which a struct does not have
# by default.
class Experiment(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A scale (a size of the experiment) with all of its trainings and evaluations, and the corpora
    and systems of these trainings.

    The systems include the values that the scale overrides.
    """

    scale: ScaleSpec
    rows: list[SheetRow]
    corpora: dict[str, CorpusSpec]
    system_by_name: dict[str, SystemSpec]
    evaluations: list[Evaluation]

    @functools.cached_property
    def trainings(self) -> list[TrainingKey]:
        """The trainings in the rows, in the order of the rows."""
        return list_trainings(self.rows)

    @property
    def baselines(self) -> list[tuple[str, str]]:
        """Pairs of a corpus and a test set on which translations made without training are scored.
        Replications have no baselines.
        """
        names = self.corpus_by_pair.values() if self.scale.has_baselines else ()
        return [(name, self.corpora[name].testset_of(BASELINE_ROLE)) for name in names]

    def num_models(self, corpus: str, system: str) -> int:
        """Return how many model checkpoints the trainings of a system on a corpus keep. A training
        keeps as many checkpoints as its largest average needs, such as 20 for big.
        """
        own_evaluations = (e for e in self.evaluations if (e.corpus, e.system) == (corpus, system))
        return max(num_averaged(evaluation.average) for evaluation in own_evaluations)

    def evaluations_of_training(self, corpus: str, system: str, seed: int) -> list[Evaluation]:
        """Return the evaluations of the training with this corpus, system and seed."""
        return [e for e in self.evaluations if e.training == (corpus, system, seed)]

    def require_kept(self, results_folder: Path) -> None:
        """Require that the finished trainings have kept all checkpoints that the evaluations
        average.

        Damaged records of trainings are ignored here. The stage that reads a damaged record reports
        the damage.

        Raises:
            ConfigError: if a finished training kept fewer checkpoints than its evaluations average.
        """
        for run in self.trainings:
            path = train_record(results_folder, self.scale.scale, *run)
            if not path.exists():
                continue
            num_needed = self.num_models(run.corpus, run.system)
            # Averages of 20 checkpoints cannot be made of a run that kept 5.
            try:
                num_kept = len(read_record(path, TrainRecord).models)
            except RecordError:
                continue
            if num_kept < num_needed:
                raise ConfigError(
                    f"{path}: its run kept fewer than the {num_needed} checkpoints that this config"
                    f" averages; take {run.system} out of the sheet, or delete this record and"
                    f" train again: `aiayn train --fresh --num-models {num_needed} ...`"
                )

    @functools.cached_property
    def later_trainings(self) -> frozenset[TrainingKey]:
        """The trainings that only decisions require, and no table. The rows of the paper's tables,
        the conclusions and the verdicts ignore trainings that only decisions require.
        """
        return frozenset(list_trainings(row for row in self.rows if row.is_later))

    @property
    def corpus_by_pair(self) -> dict[str, str]:
        """The corpus that the paper's tables use for each language pair. The corpus for a language
        pair is the first corpus in the sheet with this pair that is not used for replications
        (repetitions of numbers that others published).
        """
        corpus_by_pair: dict[str, str] = {}
        for row in self.rows:
            # A replication repeats someone else's corpus, which the paper's tables must not use.
            if REPLICATIONS not in row.asked_by:
                corpus_by_pair.setdefault(self.corpora[row.corpus].language_pair, row.corpus)
        return corpus_by_pair

    def write_sheet(self, results_folder: Path) -> None:
        """Add the trainings of this experiment to the sheet (list of trainings) in the folder of
        the scale's results. Trainings that are already in this sheet are kept.
        """
        path = results_folder / self.scale.scale / SHEET_NAME
        earlier = read_sheet(path) if path.exists() else []
        # Snakemake may be called with other selections later. The rows of all of them are kept.
        with replace_on_success(path) as partial_path:
            partial_path.write_text(sheet_text(join_sheets(self.rows, earlier)), encoding="utf-8")

    def records(self, results_folder: Path, *, is_declared: bool = False) -> list[Path]:
        """Return the paths of all records that the tables use, each path once.

        With `is_declared`, return the inputs of the rule `tables`. The inputs of this rule are not
        the records of evaluations, but one record for each training, which lists the records of its
        evaluations.
        """
        scale = self.scale.scale
        records = [train_record(results_folder, scale, *run) for run in self.trainings]
        evaluations_by_verb = {
            "score": self.evaluations,
            "perplexity": [e for e in self.evaluations if e.has_perplexity],
        }
        # The list is one file for each training, which keeps the DAG small.
        if is_declared:
            evaluations_by_verb = {}
            records += [evaluations_record(results_folder, scale, *key) for key in self.trainings]
        for verb, evaluations in evaluations_by_verb.items():
            records += [evaluation_record(results_folder, scale, verb, e) for e in evaluations]
        for corpus, testset in self.baselines:
            records.append(baselines_record(results_folder, scale, corpus, testset))
        for stage in asked_stages(self.scale):
            records.append(scale_record(results_folder, scale, stage.verb))
        return records


def num_kept(language_pair: str, system: str) -> int:
    """Return how many checkpoints of a system are averaged for the paper's tables: 1, 5 or 20."""
    if not is_asked_for(language_pair, system):
        return num_averaged(COMPARED_AVERAGE)
    return max(num_averaged(average) for average, _ in evaluations_of(language_pair, system))


def read_experiment(scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER) -> Experiment:
    """Expand the list of trainings (sheet) of a scale, and check that the trainings fit together.

    Raises:
        ConfigError: for the same reasons as in `expand`, or if no training is left, if two corpora
            have the same language pair, if a training continues a training that is not in the list,
            or if a training writes fewer checkpoints than its evaluations average.
        TableError: for the same reasons as in `expand`.
    """
    experiment = expand(scale, scale.read_rows(config_folder), config_folder)
    if not experiment.trainings:
        raise ConfigError(
            f"scale {scale.scale}: no training of the sheet is left with only={scale.only!r} and"
            f" updates={scale.updates}; a system that continues another one is left out if"
            " `updates` is set"
        )
    corpus_by_pair = experiment.corpus_by_pair
    # Two corpora in one column of a table would be compared as if they were one.
    for row in experiment.rows:
        expected = corpus_by_pair.get(experiment.corpora[row.corpus].language_pair, row.corpus)
        if row.corpus != expected and REPLICATIONS not in row.asked_by:
            raise ConfigError(
                f"{row.location}: corpus {row.corpus} has the language pair of {expected}; expected"
                " one corpus of a pair, apart from replications"
            )
    # Errors are found here, before Snakemake builds the DAG, and not after days of training.
    _check_beginnings(experiment)
    # Seeds do not matter here, so each pair of system and corpus is checked once.
    for system, corpus in sorted({(run.system, run.corpus) for run in experiment.trainings}):
        num_models = experiment.num_models(corpus, system)
        _check_checkpoints(scale, experiment.system_by_name[system], num_models)
    return experiment


def expand(
    scale: ScaleSpec, rows: list[SheetRow], config_folder: Path = CONFIG_FOLDER
) -> Experiment:
    """Expand the rows of a sheet (a list of trainings) into trainings and evaluations of a scale.

    If the scale sets one number of `updates` for all systems, systems that continue the training of
    a different system are left out.

    Raises:
        ConfigError: if a corpus or system has no file, if an evaluation in the sheet is wrong, or
            if a row repeats a number that nobody published. The message contains the file and the
            line of the sheet.
        TableError: if the sheet lists a system for a table of the paper, and the paper does not
            have a number for this system.
    """
    corpora, system_by_name = {}, {}
    for row in rows:
        try:
            if row.corpus not in corpora:
                corpora[row.corpus] = read_corpus(row.corpus, config_folder)
            if row.system not in system_by_name:
                system = read_system(row.system, scale.scale, config_folder)
                system_by_name[row.system] = overridden(system, scale.overrides)
        except ConfigError as error:
            raise ConfigError(f"{row.location}: {error}") from error
    # The two systems differ only in `updates`, so with one number of updates they are the same.
    if scale.updates is not None:
        rows = [row for row in rows if system_by_name[row.system].begins_from is None]
    evaluations = []
    for row in rows:
        corpus = corpora[row.corpus]
        _check_published(row, corpus)
        # Evaluations do not depend on the seed, so they are parsed once for each row.
        role_by_evaluation = _parse_evaluations(row, corpus)
        for seed in row.seeds:
            for (average, testset), role in role_by_evaluation.items():
                evaluation = Evaluation(
                    corpus=row.corpus,
                    system=row.system,
                    seed=seed,
                    average=average,
                    role=role,
                    testset=testset,
                    language_pair=corpus.language_pair,
                )
                evaluations.append(evaluation)
    return Experiment(
        scale=scale,
        rows=rows,
        corpora=corpora,
        system_by_name=system_by_name,
        evaluations=evaluations,
    )


def published_runs() -> dict[tuple[str, str], RepeatedRow]:
    """Return the trainings of other authors that this project can repeat, by corpus and system."""
    runs: list[RepeatedRow] = [*read_replications(), *read_sentences()]
    return {(run.corpus, run.system): run for run in runs}


def _check_published(row: SheetRow, corpus: CorpusSpec) -> None:
    """Require that the paper has a number for a system that the sheet lists for Table 2 or 3, and
    that a replication repeats a number that others published.
    """
    if "table2" in row.asked_by or "table3" in row.asked_by:
        try:
            evaluations_of(corpus.language_pair, row.system)
        # `evaluations_of` does not know the sheet, so its line is added here.
        except TableError as error:
            raise TableError(f"{row.location}: {error}") from error
    if REPLICATIONS not in row.asked_by:
        return
    published = published_runs()
    run = published.get((row.corpus, row.system))
    if run is None:
        expected = ", ".join(f"{system} on {name}" for name, system in sorted(published))
        raise ConfigError(
            f"{row.location}: nobody published {row.system} on {row.corpus}; expected"
            f" {expected}, as in published/replications.csv and published/sentences.csv"
        )
    if (testset := corpus.testset_of(run.role)) != run.testset:
        raise ConfigError(
            f"corpus {row.corpus}: {run.role} test set is {testset}, expected {run.testset},"
            f" the test set of the published number of {run.row}; correct the corpus file"
        )


def _parse_evaluations(row: SheetRow, corpus: CorpusSpec) -> dict[tuple[str, str], str]:
    """Return the evaluations of the trainings in a row of the sheet: the role of each test set by
    (average, test set). The role is what a test set is used for, such as `dev` or `test`.

    Raises:
        ConfigError: if the corpus does not have the test set, if the average or the length
            penalty's alpha is wrong, or if an evaluation is given twice.
    """
    role_by_evaluation: dict[tuple[str, str], str] = {}
    for word in row.evaluations:
        # For example `last5/test`, or `last1/dev-alpha1.4` for a search with a different length
        # penalty.
        average, _, searched = word.partition("/")
        name, mark, alpha = searched.partition(ALPHA_MARK)
        is_role = name in ("dev", "test")
        try:
            split_alpha(searched)
        except UsageError as error:
            raise ConfigError(f"{row.location}: evaluations has {word!r}: {error}") from error
        if num_averaged(average) < 1 or not (is_role or name in corpus.testsets):
            raise ConfigError(
                f"{row.location}: evaluations has {word!r}; expected an average and a test set, as"
                f" last5/test; the test sets of {corpus.name}: dev, test,"
                f" {', '.join(corpus.testsets)}"
            )
        testset = corpus.testset_of(name) if is_role else name
        # The role decides which tables read the evaluation, and no path depends on it.
        role = name if is_role else "further"
        if mark:
            role = "alpha"
        evaluation = (average, f"{testset}{mark}{alpha}")
        # `dev` and the name of the dev set are the same test set.
        if evaluation in role_by_evaluation:
            raise ConfigError(f"{row.location}: evaluations has {word!r} a second time; keep one")
        role_by_evaluation[evaluation] = role
    return role_by_evaluation


def _check_beginnings(experiment: Experiment) -> None:
    """Require that the list of trainings also contains each training that a different training in
    the list continues.
    """
    listed = set(experiment.trainings)
    for training in sorted(listed):
        begins_from = experiment.system_by_name[training.system].begins_from
        if begins_from is None:
            continue
        # A training continues the training with the same seed, so the two have one random history.
        earlier = training._replace(system=begins_from)
        if earlier not in listed:
            raise ConfigError(
                f"scale {experiment.scale.scale}: {training.system} with seed {training.seed}"
                f" continues the training of {begins_from} with that seed, which is not listed; add"
                " it to the sheet, or to `only`"
            )


def _check_checkpoints(scale: ScaleSpec, system: SystemSpec, num_wanted: int) -> None:
    """Raise an error if a training writes fewer checkpoints than its average needs (section
    6.1).
    """
    interval = system.training.save_interval_updates
    if interval is None:  # a checkpoint each epoch: the number depends on the data
        return
    updates = system.training.updates
    # The last checkpoint is at the last update, and the others are at distances of `interval`.
    num_written = (updates - 1) // interval + 1
    if num_written < num_wanted:
        raise ConfigError(
            f"scale {scale.scale}: {system.name} writes {num_written} checkpoint(s) in"
            f" {updates} updates, 1 every {interval}, expected {num_wanted} for its average;"
            f" raise `updates`, or take {system.name} out of the sheet of trainings"
        )
