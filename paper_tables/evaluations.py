"""Expands a scale's lists of names into trainings, evaluations and the records that the tables read.

The Snakefile asks here what to make and `aiayn tables` what to read, so that the two cannot disagree; hence no pandas.
The systems of a scale are read here too, and nowhere else: what the scale overrides counts for rules and tables alike.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
from aiayn.paths import Evaluation, baselines_record, evaluation_record, measure_record, num_averaged, train_record
from aiayn.spec import CONFIG_FOLDER, CorpusSpec, ScaleSpec, SystemSpec, overridden, read_corpus, read_system
from paper_tables.published import (
    RepeatedRun,
    evaluations_of,
    is_asked_for,
    read_replications,
    read_sentences,
    run_of,
)

BASELINE_ROLE = "test"
REFERENCE_SYSTEM = "base"  # what variants and architectures are compared with
COMPARED_AVERAGE, COMPARED_ROLE = "last1", "dev"  # on which they are, as the rows of Table 3 are
# Every system that may stand in the tables `variants` and `architectures`; a scale names those that it trains.
# Three of Table 3's rows are variants that others print too: no dropout, no label smoothing, learned positions.
VARIANTS = (
    "pre_norm",
    "no_attention_biases",
    "untied",
    "additive_attention",
    "unscaled_attention",
    "sqrt_d_model_attention",
    "learned_temperature",
    "ffn_dropout",
    "attention_dropout",
    "table3_d_pdrop0",
    "table3_d_els0",
    "standard_normal_embeddings",
    "table3_e_learned",
    "t2t_sinusoids",
    "batch_norm",
    "seed_annotated",
    "seed_jadore",
    "seed_torch_nn",
)
ARCHITECTURES = ("lstm", "fconv")


class Training(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One (corpus, system, seed)."""

    corpus: str
    system: str
    seed: int


def used_corpora(scale: ScaleSpec) -> list[str]:
    """Return the names of the corpora that some training of the scale needs, each once."""
    corpora = []
    if scale.en_de_systems or scale.ablation_systems or compared_systems(scale):
        corpora.append(scale.en_de_corpus)
    if scale.en_fr_systems:
        corpora.append(scale.en_fr_corpus)
    corpora += [replication.corpus for replication in chosen_replications(scale)]
    return list(dict.fromkeys(corpora))


def read_corpora(scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER) -> dict[str, CorpusSpec]:
    """Return the used corpora by name.

    Raises:
        ConfigError: if one is of another language pair than its place in the scale says, or a replication's corpus has
            another test set than the published number's.
    """
    corpora = {name: read_corpus(name, config_folder) for name in used_corpora(scale)}
    expected_pairs = [(scale.en_de_corpus, "en-de"), (scale.en_fr_corpus, "en-fr")]
    expected_pairs += [(replication.corpus, replication.language_pair) for replication in chosen_replications(scale)]
    for name, language_pair in expected_pairs:
        if name in corpora and corpora[name].language_pair != language_pair:
            raise ConfigError(
                f"scale {scale.scale}: corpus {name} is {corpora[name].language_pair}, expected {language_pair}; "
                f"name another corpus, or correct {config_folder / 'corpora' / name}.yaml"
            )
    for replication in chosen_replications(scale):
        found = corpora[replication.corpus].testset_of(replication.role)
        if found != replication.testset:
            raise ConfigError(
                f"corpus {replication.corpus}: {replication.role} test set is {found}, expected {replication.testset}, "
                f"on which the published number of {replication.row} was measured; correct the corpus file"
            )
    return corpora


def chosen_replications(scale: ScaleSpec) -> list[RepeatedRun]:
    """Return the runs of others that the scale names under `replications`, in its order.

    Raises:
        ConfigError: if it names one that is not published.
    """
    published = [*read_replications(), *(sentences[0] for sentences in read_sentences().values())]
    replication_by_row = {one.row: run_of(one) for one in published}
    for name in scale.replications:
        if name not in replication_by_row:
            raise ConfigError(
                f"scale {scale.scale}: replications has {name!r}; expected rows of published/replications.csv or "
                "published/sentences.csv: "
                f"{', '.join(sorted(replication_by_row))}"
            )
    return [replication_by_row[name] for name in scale.replications]


def compared_systems(scale: ScaleSpec) -> list[str]:
    """Return the scale's variants and architectures, base before them; none if it names neither."""
    named = [*scale.variants, *scale.architectures]
    return list(dict.fromkeys([REFERENCE_SYSTEM, *named])) if named else []


def expand_trainings(scale: ScaleSpec) -> list[Training]:
    """Return every training of a scale, once.

    Table 2's and replications have `seeds`, ablations `ablation_seeds`; variants, architectures and the base that they
    are compared with have `variant_seeds`.
    """
    wanted = [(scale.en_de_corpus, scale.en_de_systems, scale.seeds)]
    wanted += [(scale.en_fr_corpus, scale.en_fr_systems, scale.seeds)]
    wanted += [(scale.en_de_corpus, scale.ablation_systems, scale.ablation_seeds)]
    wanted += [(replication.corpus, [replication.system], scale.seeds) for replication in chosen_replications(scale)]
    wanted += [(scale.en_de_corpus, compared_systems(scale), scale.variant_seeds)]
    trainings = [
        Training(corpus=corpus, system=system, seed=seed)
        for corpus, systems, seeds in wanted
        for system in systems
        for seed in seeds
    ]
    return list(dict.fromkeys(trainings))


def asked_evaluations(scale: ScaleSpec, corpus: CorpusSpec, system: str) -> list[tuple[str, str]]:
    """Return the (average, role) pairs that the tables ask of a system, the fewest averaged checkpoints first.

    Raises:
        TableError: if neither a printed number nor the tables of variants and architectures ask for it.
    """
    is_compared = corpus.name == scale.en_de_corpus and system in compared_systems(scale)
    if not is_compared:
        return evaluations_of(corpus.language_pair, system)
    printed = evaluations_of(corpus.language_pair, system) if is_asked_for(corpus.language_pair, system) else []
    asked = {*printed, (COMPARED_AVERAGE, COMPARED_ROLE)}
    return sorted(asked, key=lambda pair: (num_averaged(pair[0]), pair[1]))


def largest_asked_average(scale: ScaleSpec, corpus: CorpusSpec, system: str) -> int:
    """Return how many of its last checkpoints a training must keep: 5 for base, 20 for big, 1 for a variant.

    Raises:
        TableError: as `asked_evaluations`.
    """
    return max(num_averaged(average) for average, _ in asked_evaluations(scale, corpus, system))


def expand_evaluations(
    scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER, trainings: Iterable[Training] | None = None
) -> list[Evaluation]:
    """Return every evaluation that the tables ask of the scale's trainings, or of these alone.

    Raises:
        ConfigError: if a corpus is unreadable or unfit.
        TableError: if no table asks for a system.
    """
    corpora = read_corpora(scale, config_folder)
    evaluations = []
    for training in expand_trainings(scale) if trainings is None else trainings:
        corpus = corpora[training.corpus]
        for average, role in asked_evaluations(scale, corpus, training.system):
            evaluations.append(
                Evaluation(
                    corpus=training.corpus,
                    system=training.system,
                    seed=training.seed,
                    average=average,
                    testset=corpus.testset_of(role),
                    role=role,
                    language_pair=corpus.language_pair,
                )
            )
    return evaluations


def read_systems(scale: ScaleSpec, config_folder: Path = CONFIG_FOLDER) -> dict[str, SystemSpec]:
    """Return every system that the scale trains by name, as it trains it: what the scale overrides stands for its own.

    Raises:
        ConfigError: if a system or corpus is unreadable, or a training would write fewer checkpoints than are averaged.
    """
    corpora = read_corpora(scale, config_folder)
    trained = sorted({(training.system, training.corpus) for training in expand_trainings(scale)})
    system_by_name = {
        name: overridden(read_system(name, scale.scale, config_folder), scale.overrides)
        for name in sorted({system for system, _ in trained})
    }
    for name, corpus in trained:
        _check_checkpoints(scale, system_by_name[name], largest_asked_average(scale, corpora[corpus], name))
    return system_by_name


def _check_checkpoints(scale: ScaleSpec, system: SystemSpec, num_wanted: int) -> None:
    """Refuse a training that ends before as many checkpoints are written as its average takes (section 6.1)."""
    interval = system.training.save_interval_updates
    if interval is None:  # by epochs: how many there will be hangs on the data
        return
    updates = system.training.updates
    num_written = (updates - 1) // interval + 1  # the last one at the last update, the others so many before it
    if num_written < num_wanted:
        raise ConfigError(
            f"scale {scale.scale}: {system.name} writes {num_written} checkpoint(s) in {updates} updates, one every "
            f"{interval}, expected {num_wanted}, which are averaged; raise `updates`, or take {system.name} out of "
            "the lists of systems"
        )


def shown_evaluations(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Return the evaluations whose translations stand in a table, sentence by sentence: those of sentences.csv."""
    shown = {(run.corpus, run.system, run.average, run.role) for run, *_ in read_sentences().values()}
    return [one for one in evaluations if (one.corpus, one.system, one.average, one.role) in shown]


def needs_perplexity(evaluation: Evaluation) -> bool:
    """Tell whether Table 3 asks for the perplexity of an evaluation: those on dev, of unaveraged models."""
    return evaluation.role == "dev"


def expand_baselines(scale: ScaleSpec, corpora: dict[str, CorpusSpec]) -> list[tuple[str, str]]:
    """Return the (corpus, test set) pairs whose baselines the scale asks for; none unless `has_baselines`."""
    if not scale.has_baselines:
        return []
    names = [name for name in used_corpora(scale) if name in (scale.en_de_corpus, scale.en_fr_corpus)]
    return [(name, corpora[name].testset_of(BASELINE_ROLE)) for name in names]


def required_records(scale: ScaleSpec, results_folder: Path, config_folder: Path = CONFIG_FOLDER) -> list[Path]:
    """Return every record that the scale's tables are made of, each once: the inputs of rule tables."""
    evaluations = expand_evaluations(scale, config_folder)
    baselines = expand_baselines(scale, read_corpora(scale, config_folder))
    return [
        *_training_records(scale, results_folder),
        *(evaluation_record(results_folder, scale.scale, "score", evaluation) for evaluation in evaluations),
        *_perplexity_records(scale, results_folder, evaluations),
        *(evaluation_record(results_folder, scale.scale, "decode", one) for one in shown_evaluations(evaluations)),
        *(baselines_record(results_folder, scale.scale, corpus, testset) for corpus, testset in baselines),
        measure_record(results_folder, scale.scale),
    ]


def _training_records(scale: ScaleSpec, results_folder: Path) -> list[Path]:
    return [
        train_record(results_folder, scale.scale, training.corpus, training.system, training.seed)
        for training in expand_trainings(scale)
    ]


def _perplexity_records(scale: ScaleSpec, results_folder: Path, evaluations: Iterable[Evaluation]) -> list[Path]:
    wanted = [evaluation for evaluation in evaluations if needs_perplexity(evaluation)]
    return [evaluation_record(results_folder, scale.scale, "perplexity", evaluation) for evaluation in wanted]
