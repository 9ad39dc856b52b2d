"""Expands a scale's lists of names once, into all that is trained, evaluated and recorded for its
tables.

The rules ask here what to make, the plan what it costs, and the tables what to read, so that they
cannot disagree. Its systems include the scale's overrides. Imports no pandas, so that the Snakefile
loads fast.
"""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
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
    evaluations_of,
    is_asked_for,
    read_replications,
    read_sentences,
)
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

ALL_COMPARED = (
    CONFIG_FOLDER / "variants.yaml"
)  # the scale that names every variant and architecture


class Training(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One (corpus, system, seed)."""

    corpus: str
    system: str
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Corpus, system, seed."""
        return (self.corpus, self.system, self.seed)


class Experiment(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A scale with its lists of names expanded; corpora and systems are those that some training
    needs.

    The systems are as the scale trains them. `baselines` are (corpus, test set).
    """

    scale: ScaleSpec
    corpora: dict[str, CorpusSpec]
    system_by_name: dict[str, SystemSpec]
    trainings: list[Training]
    evaluations: list[Evaluation]
    baselines: list[tuple[str, str]]

    def seeds_of(self, corpus: str, system: str) -> list[int]:
        """Return the seeds that the scale asks of a system; none if it is not run."""
        return sorted(
            run.seed for run in self.trainings if (run.corpus, run.system) == (corpus, system)
        )

    def num_models(self, corpus: str, system: str) -> int:
        """Return how many of its last checkpoints a training keeps, the most that are averaged: of
        big 20.
        """
        pairs = _asked_pairs(self.scale, self.corpora[corpus], system)
        return max(num_averaged(average) for average, _ in pairs)

    @functools.cached_property
    def later_trainings(self) -> frozenset[Training]:
        """The trainings of `later_seeds`, which no printed row, conclusion or verdict uses."""
        return frozenset(expand_later_trainings(self.scale))

    def records(self, results_folder: Path) -> list[Path]:
        """Return every record that the tables are made of, each once: the inputs of rule tables."""
        scale = self.scale.scale
        of_evaluations = {
            "score": self.evaluations,
            "perplexity": [
                evaluation for evaluation in self.evaluations if evaluation.has_perplexity
            ],
            "decode": shown_evaluations(self.evaluations),
        }
        return [
            *(train_record(results_folder, scale, *training.key) for training in self.trainings),
            *(
                evaluation_record(results_folder, scale, verb, e)
                for verb, some in of_evaluations.items()
                for e in some
            ),
            *(
                baselines_record(results_folder, scale, corpus, testset)
                for corpus, testset in self.baselines
            ),
            *(
                scale_record(results_folder, scale, stage.verb)
                for stage in asked_stages(self.scale)
            ),
        ]


def read_experiment(scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER) -> Experiment:
    """Expand a scale, and check that each training writes as many checkpoints as are averaged.

    Raises:
        ConfigError: as `expand`, or if a training writes fewer.
        TableError: as `expand`.
    """
    experiment = expand(scale, config_folder)
    for system, corpus in sorted(
        {(training.system, training.corpus) for training in experiment.trainings}
    ):
        _check_checkpoints(
            scale, experiment.system_by_name[system], experiment.num_models(corpus, system)
        )
    return experiment


def expand(
    scale: ScaleSpec,
    config_folder: Path = CONFIG_FOLDER,
    trainings: Iterable[Training] | None = None,
) -> Experiment:
    """Expand a scale into its trainings, or these alone, and all that follows from them.

    Raises:
        ConfigError: if a system or corpus is unreadable, a corpus is of another language pair or
            test set than its place asks for, or a replication is not published.
        TableError: if no table asks for a system.
    """
    is_whole = trainings is None
    trainings = list(expand_trainings(scale) if trainings is None else trainings)
    corpora = _read_corpora(scale, config_folder)
    system_by_name = {
        name: overridden(read_system(name, scale.scale, config_folder), scale.overrides)
        for name in sorted({training.system for training in trainings})
    }
    if is_whole:
        _check_beginnings(scale, trainings, system_by_name)
    evaluations = [
        Evaluation(
            corpus=training.corpus,
            system=training.system,
            seed=training.seed,
            average=average,
            role=role,
            testset=testset,
            language_pair=corpora[training.corpus].language_pair,
        )
        for training in trainings
        for average, role, testset in _asked_evaluations(
            scale, corpora[training.corpus], training.system
        )
    ]
    own = (scale.en_de_corpus, scale.en_fr_corpus)  # replications have no baselines
    return Experiment(
        scale=scale,
        corpora=corpora,
        system_by_name=system_by_name,
        trainings=trainings,
        evaluations=evaluations,
        baselines=[
            (name, corpus.testset_of(BASELINE_ROLE))
            for name, corpus in corpora.items()
            if scale.has_baselines and name in own
        ],
    )


def expand_trainings(scale: ScaleSpec) -> list[Training]:
    """Return every training of a scale, once.

    `ScaleSpec` sets the seeds per role. Base, with which variants and architectures are compared,
    also runs with `variant_seeds`. The trainings of `later_seeds` come last.

    Raises:
        ConfigError: if `later_seeds` names a seed that the tables use already.
    """
    base_seeds = scale.seeds if scale.base_seeds is None else scale.base_seeds
    replication_seeds = scale.seeds if scale.replication_seeds is None else scale.replication_seeds
    wanted = [
        (scale.en_de_corpus, [system], base_seeds if system == REFERENCE_SYSTEM else scale.seeds)
        for system in scale.en_de_systems
    ]
    wanted += [(scale.en_fr_corpus, scale.en_fr_systems, scale.seeds)]
    wanted += [(scale.en_de_corpus, scale.ablation_systems, scale.ablation_seeds)]
    wanted += [
        (run.corpus, [run.system], replication_seeds) for run in chosen_replications(scale).values()
    ]
    wanted += [(scale.en_de_corpus, _compared_systems(scale), scale.variant_seeds)]
    trainings = [
        Training(corpus=corpus, system=system, seed=seed)
        for corpus, systems, seeds in wanted
        for system in systems
        for seed in seeds
    ]
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
    """Return the runs of others that the scale names under `replications`, by row in its order.

    Raises:
        ConfigError: if it names one that is not published.
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
    """Return by row what others ran that a scale may name under `replications`."""
    return {
        run.row: run.key
        for run in (*read_replications(), *(lines[0] for lines in read_sentences().values()))
    }


@functools.cache  # the tables ask several times; the file does not change under them
def all_compared() -> ScaleSpec:
    """Return the scale whose `variants` and `architectures` are all that there are, in the order of
    their tables.
    """
    return read_scale(ALL_COMPARED)


def shown_evaluations(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Return the evaluations whose translations a table shows, sentence by sentence: those of
    sentences.csv.
    """
    shown = {run.key for run, *_ in read_sentences().values()}
    return [evaluation for evaluation in evaluations if evaluation.key in shown]


def _check_beginnings(
    scale: ScaleSpec, trainings: Iterable[Training], system_by_name: Mapping[str, SystemSpec]
) -> None:
    """Require that each training which continues another has that other training in the scale."""
    known = set(trainings)
    for training in sorted(known):
        system = system_by_name[training.system]
        if system.begins_from is None:
            continue
        earlier = msgspec.structs.replace(training, system=system.begins_from)
        if earlier not in known:
            raise ConfigError(
                f"scale {scale.scale}: {training.system} with seed {training.seed} continues the"
                f" training of {earlier.system} with that seed, which the scale does not name; add"
                " it, for example to later_seeds"
            )


def _compared_systems(scale: ScaleSpec) -> list[str]:
    """Return the scale's variants and architectures, base before them; none if it names neither."""
    named = [*scale.variants, *scale.architectures]
    return list(dict.fromkeys([REFERENCE_SYSTEM, *named])) if named else []


def _read_corpora(scale: ScaleSpec, config_folder: Path) -> dict[str, CorpusSpec]:
    """Return the corpora that some training of the scale needs; each is as its place in the scale
    asks.
    """
    places: list[tuple[str, str]] = []  # corpus, language pair
    if (
        scale.en_de_systems
        or scale.ablation_systems
        or _compared_systems(scale)
        or scale.later_seeds
    ):
        places.append((scale.en_de_corpus, "en-de"))
    if scale.en_fr_systems:
        places.append((scale.en_fr_corpus, "en-fr"))
    replications = chosen_replications(scale)
    places += [(run.corpus, run.language_pair) for run in replications.values()]
    corpora = {name: read_corpus(name, config_folder) for name, _ in places}
    for name, language_pair in places:
        if corpora[name].language_pair != language_pair:
            raise ConfigError(
                f"scale {scale.scale}: corpus {name} is {corpora[name].language_pair}, expected"
                f" {language_pair}; name another corpus, or correct"
                f" {config_folder / 'corpora' / name}.yaml"
            )
    for row, run in replications.items():
        if (testset := corpora[run.corpus].testset_of(run.role)) != run.testset:
            raise ConfigError(
                f"corpus {run.corpus}: {run.role} test set is {testset}, expected {run.testset}, on"
                f" which the published number of {row} was measured; correct the corpus file"
            )
    return corpora


def _asked_pairs(scale: ScaleSpec, corpus: CorpusSpec, system: str) -> list[tuple[str, str]]:
    """Return the (average, role) pairs that the tables ask of a system, the fewest averaged
    checkpoints first.

    Raises:
        TableError: if neither a printed number nor the tables of variants and architectures ask for
        it.
    """
    is_compared = system in _compared_systems(scale) or _is_unprinted_later_system(
        scale, corpus, system
    )
    if corpus.name != scale.en_de_corpus or not is_compared:
        return evaluations_of(corpus.language_pair, system)
    printed = (
        evaluations_of(corpus.language_pair, system)
        if is_asked_for(corpus.language_pair, system)
        else []
    )
    asked = {*printed, (COMPARED_AVERAGE, COMPARED_ROLE)}
    return sorted(asked, key=lambda pair: (num_averaged(pair[0]), pair[1]))


def _is_unprinted_later_system(scale: ScaleSpec, corpus: CorpusSpec, system: str) -> bool:
    """Return whether `later_seeds` names a system that the paper does not print, as a longer
    training of a row.
    """
    return system in scale.later_seeds_by_system and not is_asked_for(corpus.language_pair, system)


def _asked_evaluations(
    scale: ScaleSpec, corpus: CorpusSpec, system: str
) -> list[tuple[str, str, str]]:
    """Return (average, role, test set) of all that is asked of a system: the pairs, and of Table
    3's further ones.

    Raises:
        TableError: as `_asked_pairs`.
        ConfigError: if the corpus lacks one of the scale's `row_testsets`.
    """
    asked = [
        (average, role, corpus.testset_of(role))
        for average, role in _asked_pairs(scale, corpus, system)
    ]
    is_printed = is_asked_for(corpus.language_pair, system)
    is_row = is_printed or _is_unprinted_later_system(scale, corpus, system)
    of_dev = (COMPARED_AVERAGE, COMPARED_ROLE, corpus.testset_of(COMPARED_ROLE))
    if not is_row or corpus.name != scale.en_de_corpus or of_dev not in asked:
        return asked
    for testset in scale.row_testsets:
        if testset not in corpus.testsets:
            raise ConfigError(
                f"scale {scale.scale}: row_testsets has {testset!r}; expected test sets of"
                f" {corpus.name}: {', '.join(corpus.testsets)}"
            )
        asked.append((COMPARED_AVERAGE, "further", testset))
    if scale.probed_alpha is not None:
        asked.append((COMPARED_AVERAGE, "alpha", f"{of_dev[2]}{ALPHA_MARK}{scale.probed_alpha:g}"))
    return asked


def _check_checkpoints(scale: ScaleSpec, system: SystemSpec, num_wanted: int) -> None:
    """Refuse a training that ends before as many checkpoints are written as its average takes
    (section 6.1).
    """
    interval = system.training.save_interval_updates
    if interval is None:  # by epochs: the number depends on the data
        return
    updates = system.training.updates
    num_written = (
        updates - 1
    ) // interval + 1  # the last one at the last update, the others so many before it
    if num_written < num_wanted:
        raise ConfigError(
            f"scale {scale.scale}: {system.name} writes {num_written} checkpoint(s) in"
            f" {updates} updates, one every {interval}, expected {num_wanted}, which are averaged;"
            f" raise `updates`, or take {system.name} out of the lists of systems"
        )
