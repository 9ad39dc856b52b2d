"""Expands a scale's lists of names into the trainings, evaluations and records of its tables.

The rules, the plan and the tables all use this expansion, so that they cannot disagree. Its systems
include the scale's overrides. pandas is not imported, so that the Snakefile loads fast.
"""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError, RecordError
from aiayn.paths import (
    ALPHA_MARK,
    CellKey,
    Evaluation,
    baselines_record,
    evaluation_record,
    num_averaged,
    scale_record,
    train_record,
)
from aiayn.printed import (
    BASELINE_ROLE,
    COMPARED_AVERAGE,
    COMPARED_ROLE,
    REFERENCE_SYSTEM,
    RepeatedRow,
    evaluations_of,
    is_asked_for,
    read_replications,
    read_sentences,
)
from aiayn.records import TrainRecord, read_record
from aiayn.spec.system import (
    CONFIG_FOLDER,
    CorpusSpec,
    ScaleSpec,
    SystemSpec,
    overridden,
    read_corpus,
    read_scale,
    read_system,
)
from aiayn.wings import asked_stages

ALL_COMPARED = CONFIG_FOLDER / "variants.yaml"  # names every variant and architecture


class Training(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A training, given by corpus, system and seed."""

    corpus: str
    system: str
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Corpus, system, seed."""
        return (self.corpus, self.system, self.seed)


class Experiment(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A scale with its lists of names expanded, and the corpora and systems of its trainings.

    The systems include the scale's overrides. `baselines` are pairs of corpus and test set.
    """

    scale: ScaleSpec
    corpora: dict[str, CorpusSpec]
    system_by_name: dict[str, SystemSpec]
    trainings: list[Training]
    evaluations: list[Evaluation]
    baselines: list[tuple[str, str]]

    def num_models(self, corpus: str, system: str) -> int:
        """Return how many checkpoints a training keeps: the most that are averaged, 20 for big."""
        own = (e for e in self.evaluations if (e.corpus, e.system) == (corpus, system))
        return max(num_averaged(evaluation.average) for evaluation in own)

    def require_kept(self, results_folder: Path) -> None:
        """Require that the finished trainings kept the checkpoints that the evaluations average.

        A damaged record is refused by the stage that reads it, and only if that stage has to run.

        Raises:
            ConfigError: naming a run that kept too few.
        """
        for run in self.trainings:
            path = train_record(results_folder, self.scale.scale, *run.key)
            if not path.exists():
                continue
            num_needed = self.num_models(run.corpus, run.system)
            try:
                num_kept = len(read_record(path, TrainRecord).models)
            except RecordError:
                continue
            if num_kept < num_needed:
                raise ConfigError(
                    f"{path}: its run kept fewer than the {num_needed} checkpoints that this config"
                    f" averages; take {run.system} out of the config, or delete this record and"
                    f" train again: `aiayn train --fresh --num-models {num_needed} ...`"
                )

    @functools.cached_property
    def later_trainings(self) -> frozenset[Training]:
        """The trainings of `later_seeds`, which printed rows, conclusions and verdicts ignore."""
        return frozenset(expand_later_trainings(self.scale))

    def records(self, results_folder: Path) -> list[Path]:
        """Return every record that the tables use, each once: the inputs of rule tables."""
        scale = self.scale.scale
        records = [train_record(results_folder, scale, *run.key) for run in self.trainings]
        evaluations_by_verb = {
            "score": self.evaluations,
            "perplexity": [e for e in self.evaluations if e.has_perplexity],
        }
        for verb, evaluations in evaluations_by_verb.items():
            records += [evaluation_record(results_folder, scale, verb, e) for e in evaluations]
        for corpus, testset in self.baselines:
            records.append(baselines_record(results_folder, scale, corpus, testset))
        for stage in asked_stages(self.scale):
            records.append(scale_record(results_folder, scale, stage.verb))
        return records


def num_kept(language_pair: str, system: str) -> int:
    """Return how many checkpoints the paper's tables average of a system: 1, 5 or 20."""
    if not is_asked_for(language_pair, system):
        return num_averaged(COMPARED_AVERAGE)
    return max(num_averaged(average) for average, _ in evaluations_of(language_pair, system))


def read_experiment(scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER) -> Experiment:
    """Expand a scale, and check that each training writes enough checkpoints for its average.

    Raises:
        ConfigError: as `expand`, or if a training writes too few checkpoints.
        TableError: as `expand`.
    """
    experiment = expand(scale, config_folder)
    for system, corpus in sorted({(run.system, run.corpus) for run in experiment.trainings}):
        num_models = experiment.num_models(corpus, system)
        _check_checkpoints(scale, experiment.system_by_name[system], num_models)
    return experiment


def expand(
    scale: ScaleSpec,
    config_folder: Path = CONFIG_FOLDER,
    trainings: Iterable[Training] | None = None,
) -> Experiment:
    """Expand a scale, or only the given trainings of it.

    Raises:
        ConfigError: if a system or corpus is unreadable, a corpus has another language pair or test
            set than expected, or a replication is not published.
        TableError: if no table uses a system.
    """
    is_whole = trainings is None
    trainings = list(expand_trainings(scale) if trainings is None else trainings)
    corpora = _read_corpora(scale, config_folder)
    system_by_name = {}
    for name in sorted({training.system for training in trainings}):
        system = read_system(name, scale.scale, config_folder)
        system_by_name[name] = overridden(system, scale.overrides)
    if is_whole:
        _check_beginnings(scale, trainings, system_by_name)
    evaluations = []
    for training in trainings:
        corpus = corpora[training.corpus]
        for average, role, testset in _asked_evaluations(scale, corpus, training.system):
            evaluation = Evaluation(
                corpus=training.corpus,
                system=training.system,
                seed=training.seed,
                average=average,
                role=role,
                testset=testset,
                language_pair=corpus.language_pair,
            )
            evaluations.append(evaluation)
    baselines = []
    for name, corpus in corpora.items():
        # Replications have no baselines.
        if scale.has_baselines and name in (scale.en_de_corpus, scale.en_fr_corpus):
            baselines.append((name, corpus.testset_of(BASELINE_ROLE)))
    return Experiment(
        scale=scale,
        corpora=corpora,
        system_by_name=system_by_name,
        trainings=trainings,
        evaluations=evaluations,
        baselines=baselines,
    )


def expand_trainings(scale: ScaleSpec) -> list[Training]:
    """Return every training of a scale, once.

    `ScaleSpec` sets the seeds per role. Base, the baseline of variants and architectures, also runs
    with `variant_seeds`. The trainings of `later_seeds` come last.

    Raises:
        ConfigError: if `later_seeds` names a seed that the tables use already.
    """
    base_seeds = scale.seeds if scale.base_seeds is None else scale.base_seeds
    replication_seeds = scale.seeds if scale.replication_seeds is None else scale.replication_seeds
    trainings: list[Training] = []

    def add(corpus: str, systems: list[str], seeds: list[int]) -> None:
        for system in systems:
            trainings.extend(Training(corpus=corpus, system=system, seed=seed) for seed in seeds)

    for system in scale.en_de_systems:
        is_base = system == REFERENCE_SYSTEM
        add(scale.en_de_corpus, [system], base_seeds if is_base else scale.seeds)
    add(scale.en_fr_corpus, scale.en_fr_systems, scale.seeds)
    add(scale.en_de_corpus, scale.ablation_systems, scale.ablation_seeds)
    for run in chosen_replications(scale).values():
        add(run.corpus, [run.system], replication_seeds)
    add(scale.en_de_corpus, _compared_systems(scale), scale.variant_seeds)
    for training in expand_later_trainings(scale):
        if training in trainings:
            raise ConfigError(
                f"scale {scale.scale}: later_seeds has seed {training.seed} of {training.system},"
                " which the tables use already; name another seed"
            )
        trainings.append(training)
    return list(dict.fromkeys(trainings))


def expand_later_trainings(scale: ScaleSpec) -> list[Training]:
    """Return the trainings of `later_seeds`, all on the En-De corpus."""
    return [
        Training(corpus=scale.en_de_corpus, system=system, seed=seed)
        for system, seeds in scale.later_seeds_by_system.items()
        for seed in seeds
    ]


def chosen_replications(scale: ScaleSpec) -> dict[str, CellKey]:
    """Return the published runs that the scale names under `replications`, by row, in its order.

    Raises:
        ConfigError: if it names a run that is not published.
    """
    replication_by_row = repeated_runs()
    for name in scale.replications:
        if name not in replication_by_row:
            raise ConfigError(
                f"scale {scale.scale}: replications has {name!r}; expected rows of"
                " published/replications.csv or published/sentences.csv:"
                f" {', '.join(sorted(replication_by_row))}"
            )
    return {name: replication_by_row[name] for name in scale.replications}


def repeated_runs() -> dict[str, CellKey]:
    """Return, by row, the published runs that a scale may name under `replications`."""
    runs: list[RepeatedRow] = [*read_replications(), *read_sentences()]
    return {run.row: run.key for run in runs}


@functools.cache  # the tables call it several times; the file does not change meanwhile
def all_compared() -> ScaleSpec:
    """Return the scale with all variants and architectures, in the order of their tables."""
    return read_scale(ALL_COMPARED)


def _check_beginnings(
    scale: ScaleSpec, trainings: Iterable[Training], system_by_name: Mapping[str, SystemSpec]
) -> None:
    """Require that a training which continues another training has that training in the scale."""
    scale_trainings = set(trainings)
    for training in sorted(scale_trainings):
        system = system_by_name[training.system]
        if system.begins_from is None:
            continue
        earlier = msgspec.structs.replace(training, system=system.begins_from)
        if earlier not in scale_trainings:
            raise ConfigError(
                f"scale {scale.scale}: {training.system} with seed {training.seed} continues the"
                f" training of {earlier.system} with that seed, which the scale does not name; add"
                " it, for example to later_seeds"
            )


def _compared_systems(scale: ScaleSpec) -> list[str]:
    """Return base, then the scale's variants and architectures; an empty list if it names none."""
    named = [*scale.variants, *scale.architectures]
    return list(dict.fromkeys([REFERENCE_SYSTEM, *named])) if named else []


def _read_corpora(scale: ScaleSpec, config_folder: Path) -> dict[str, CorpusSpec]:
    """Return the corpora of the scale's trainings, after checks of their pairs and test sets."""
    expected_pairs: list[tuple[str, str]] = []  # corpus, language pair
    compared = _compared_systems(scale)
    if scale.en_de_systems or scale.ablation_systems or compared or scale.later_seeds:
        expected_pairs.append((scale.en_de_corpus, "en-de"))
    if scale.en_fr_systems:
        expected_pairs.append((scale.en_fr_corpus, "en-fr"))
    replications = chosen_replications(scale)
    expected_pairs += [(run.corpus, run.language_pair) for run in replications.values()]
    corpora = {name: read_corpus(name, config_folder) for name, _ in expected_pairs}
    for name, language_pair in expected_pairs:
        if corpora[name].language_pair != language_pair:
            raise ConfigError(
                f"scale {scale.scale}: corpus {name} is {corpora[name].language_pair}, expected"
                f" {language_pair}; name another corpus, or correct"
                f" {config_folder / 'corpora' / name}.yaml"
            )
    for row, run in replications.items():
        if (testset := corpora[run.corpus].testset_of(run.role)) != run.testset:
            raise ConfigError(
                f"corpus {run.corpus}: {run.role} test set is {testset}, expected {run.testset},"
                f" the test set of the published number of {row}; correct the corpus file"
            )
    return corpora


def _asked_evaluations(
    scale: ScaleSpec, corpus: CorpusSpec, system: str
) -> list[tuple[str, str, str]]:
    """Return all evaluations of a system as (average, role, test set), fewest checkpoints first.

    A row of Table 3 also has the further evaluations of the scale. So has a system of `later_seeds`
    that the paper does not print, such as a longer training of a row.

    Raises:
        TableError: if no printed number and no table of variants or architectures uses the system.
        ConfigError: if the corpus lacks a test set of the scale's `row_testsets`.
    """
    is_printed = is_asked_for(corpus.language_pair, system)
    is_longer_row = not is_printed and system in scale.later_seeds_by_system
    is_compared = corpus.name == scale.en_de_corpus and (
        is_longer_row or system in _compared_systems(scale)
    )
    pairs = set()
    if is_printed or not is_compared:
        pairs.update(evaluations_of(corpus.language_pair, system))
    if is_compared:
        pairs.add((COMPARED_AVERAGE, COMPARED_ROLE))
    evaluations = [
        (average, role, corpus.testset_of(role))
        for average, role in sorted(pairs, key=lambda pair: (num_averaged(pair[0]), pair[1]))
    ]
    is_row = is_printed or is_longer_row
    is_on_dev = (COMPARED_AVERAGE, COMPARED_ROLE) in pairs
    if not is_row or corpus.name != scale.en_de_corpus or not is_on_dev:
        return evaluations
    for testset in scale.row_testsets:
        if testset not in corpus.testsets:
            raise ConfigError(
                f"scale {scale.scale}: row_testsets has {testset!r}; expected test sets of"
                f" {corpus.name}: {', '.join(corpus.testsets)}"
            )
        evaluations.append((COMPARED_AVERAGE, "further", testset))
    if scale.probed_alpha is not None:
        testset = f"{corpus.testset_of(COMPARED_ROLE)}{ALPHA_MARK}{scale.probed_alpha:g}"
        evaluations.append((COMPARED_AVERAGE, "alpha", testset))
    return evaluations


def _check_checkpoints(scale: ScaleSpec, system: SystemSpec, num_wanted: int) -> None:
    """Refuse a training that writes fewer checkpoints than its average needs (section 6.1)."""
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
            f" raise `updates`, or take {system.name} out of the lists of systems"
        )
