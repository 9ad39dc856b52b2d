"""Writes a small scale's config and records to a folder, as the stages would: what the tables'
tests start from.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from aiayn.experiment import Experiment, expand
from aiayn.paths import (
    Evaluation,
    baselines_record,
    corpus_record,
    evaluation_record,
    scale_record,
    split_alpha,
    train_record,
)
from aiayn.provenance import Provenance
from aiayn.records import (
    BaselineRecords,
    BinarizedCorpus,
    Hardware,
    Hypotheses,
    PerplexityRecord,
    RawCorpus,
    SavedModel,
    ScoreRecord,
    ScoreRecords,
    TextPair,
    TrainRecord,
    read_record,
    seal,
    write_record,
)
from aiayn.runs.attempts import Ended, Started
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.sheet import sheet_text
from aiayn.spec.system import (
    CONFIG_FOLDER,
    CorpusSpec,
    DecodingSpec,
    ScaleSpec,
    ShippedSource,
    SystemSpec,
    TrainingSpec,
)
from aiayn.wings import present_stages
from tests.sheets import DEFAULTS, make_rows

Made = TypeVar("Made")
VALUES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def made_of(name: str, kind: type[Made]) -> Made:
    """Return the values of a name in the YAML file as a struct."""
    return msgspec.convert(VALUES[name], kind, dec_hook=lambda kind, value: kind(value))


PROVENANCE = made_of("provenance", Provenance)
BASE_TRAINING = made_of("base_training", TrainingSpec)
PAPER_TRAINING = msgspec.structs.replace(BASE_TRAINING, **VALUES["paper_training"])
DECODING = made_of("decoding", DecodingSpec)
TRAINING_BY_SYSTEM = {
    name: msgspec.structs.replace(BASE_TRAINING, **changes)
    for name, changes in VALUES["changes_by_system"].items()
}
CPU = made_of("cpu", Hardware)
EIGHT_P100 = made_of("eight_p100", Hardware)
BINARIZED = made_of("binarized", BinarizedCorpus)
TRAINED = made_of("trained", TrainRecord)
HYPOTHESES = made_of("hypotheses", Hypotheses)
PERPLEXITY = made_of("perplexity", PerplexityRecord)
CORPUS = made_of("corpus", CorpusSpec)


@dataclass(frozen=True)
class Site:
    """A working directory of one scale: its config and where its records go."""

    scale: ScaleSpec
    config_folder: Path
    results_folder: Path

    @property
    def experiment(self) -> Experiment:
        """The scale with its sheet expanded."""
        return expand(self.scale, self.scale.read_rows(), self.config_folder)


def write_sealed(text: str, path: Path) -> None:
    """Write the edited text of a record with the checksum of its new lines."""
    values = msgspec.json.decode(text)
    values.pop("checksum", None)
    path.write_bytes(seal(msgspec.json.encode(values)))


def make_site(folder: Path, scale: str = "demo", **changes: object) -> Site:
    """Write the sheet, systems and corpora of a scale and return the site. `changes` are to the
    ScaleSpec, and to the lists of `tests.sheets`.
    """
    config_folder = folder / "config"
    corpus_by_pair = {"en-de": f"{scale}_en_de", "en-fr": f"{scale}_en_fr"}
    testsets = (f"{scale}_dev", f"{scale}_test")
    if scale == "paper":
        corpus_by_pair = {"en-de": "wmt14_en_de", "en-fr": "wmt14_en_fr"}
        testsets = ("newstest2013", "newstest2014")
    for pair, name in corpus_by_pair.items():
        _write_yaml(_corpus(name, pair, testsets), config_folder / "corpora" / f"{name}.yaml")
    revisit = _corpus("multi30k_revisit_en_de", "en-de", ("val", "test_2016_flickr"))
    _write_yaml(revisit, config_folder / "corpora" / f"{revisit.name}.yaml")
    for name, training in TRAINING_BY_SYSTEM.items():
        system = SystemSpec(name=name, description="a system", training=training, decoding=DECODING)
        _write_yaml(system, config_folder / "systems" / scale / f"{name}.yaml")
    sheet_path = config_folder / "trainings" / f"{scale}.tsv"
    sheet_path.parent.mkdir(exist_ok=True)
    lists = {key: value for key, value in changes.items() if key in DEFAULTS}
    sheet_path.write_text(sheet_text(make_rows(corpus_by_pair, lists)), encoding="utf-8")
    values: dict[str, object] = VALUES["scale"] | {
        "scale": scale,
        "trainings": str(sheet_path),
        "runs_folder": str(folder / "runs"),
    }
    values |= {key: value for key, value in changes.items() if key not in DEFAULTS}
    return Site(msgspec.convert(values, ScaleSpec), config_folder, folder / "results")


def make_compared_site(folder: Path, **changes: object) -> Site:
    """Make a demo that compares systems with base, two seeds each, and asks for nothing else."""
    nothing: dict[str, object] = {
        key: [] for key in ("en_de_systems", "en_fr_systems", "ablation_systems")
    }
    return make_site(
        folder, **nothing | {"has_baselines": False, "variant_seeds": [1, 2]} | changes
    )


def _corpus(name: str, language_pair: str, testsets: tuple[str, str]) -> CorpusSpec:
    sizes = dict.fromkeys(("train", *testsets), 10)
    source = ShippedSource(file="", sha256="", num_pairs_by_split=sizes)
    changes = {"language_pair": language_pair, "source": source}
    changes |= {"dev_testset": testsets[0], "test_testset": testsets[1]}
    return msgspec.structs.replace(CORPUS, name=name, **changes)


def _write_yaml(spec: msgspec.Struct, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {key: value for key, value in msgspec.to_builtins(spec).items() if value is not None}
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def run_of(corpus: str, system: str, seed: int) -> str:
    """Return the run's name."""
    return f"{corpus}-{system}-seed{seed}-0a1b2c3d"


def write_training(
    site: Site,
    corpus: str,
    system: str,
    seed: int,
    *,
    hardware: Hardware = CPU,
    wall_seconds: float = 120.0,
) -> TrainRecord:
    """Write the record of a finished training."""
    training, run_folder = (
        TRAINING_BY_SYSTEM[system],
        Path(site.scale.runs_folder) / run_of(corpus, system, seed),
    )
    models = []
    for before_end in reversed(range(20)):  # as many as the table's big averages
        update = training.updates - before_end
        models.append(SavedModel(update=update, path=run_folder / "checkpoints" / "x.pt"))
    train = msgspec.structs.replace(
        TRAINED,
        run=run_folder.name,
        corpus=corpus,
        system=system,
        seed=seed,
        updates=training.updates,
        wall_seconds=wall_seconds,
        gpu_seconds=wall_seconds * hardware.num_gpus,
        hardware=hardware,
        tokens=1_000_000,
        num_parameters=412_345,
        run_folder=run_folder,
        log_path=run_folder / "train.log",
        models=models,
        tensors_sha256="0" * 64,
        training_json=msgspec.json.encode(training, order="deterministic").decode(),
    )
    write_record(train, train_record(site.results_folder, site.scale.scale, corpus, system, seed))
    return train


def score_of(metric: str, value: float, sha256: str) -> ScoreRecord:
    """Return a score of the translations with a digest."""
    return ScoreRecord(
        metric=metric,
        value=value,
        signature=f"case:mixed|of:{metric}",
        hypotheses_sha256=sha256,
    )


def write_scores(
    site: Site, evaluation: Evaluation, value_by_metric: dict[str, float], run: str | None = None
) -> None:
    """Write the scores of an evaluation, and its perplexity if `ppl_per_subword` is among the
    metrics.
    """
    run = run or run_of(evaluation.corpus, evaluation.system, evaluation.seed)
    scale = site.scale.scale
    scores = [
        score_of(metric, value, "f" * 64)
        for metric, value in value_by_metric.items()
        if metric != "ppl_per_subword"
    ]
    testset, _ = split_alpha(evaluation.testset)
    record = ScoreRecords(provenance=PROVENANCE, run=run, testset=testset, scores=scores)
    write_record(record, evaluation_record(site.results_folder, scale, "score", evaluation))
    if "ppl_per_subword" in value_by_metric:
        perplexity = msgspec.structs.replace(
            PERPLEXITY,
            run=run,
            average=evaluation.average,
            testset=evaluation.testset,
            value=value_by_metric["ppl_per_subword"],
        )
        write_record(
            perplexity, evaluation_record(site.results_folder, scale, "perplexity", evaluation)
        )


def write_dev_scores(site: Site, system: str, seed: int, bleu: float, ppl: float) -> None:
    """Write a system's scores on dev: BLEU as Table 3 prints it, sacreBLEU's one below, and
    perplexity.
    """
    for evaluation in site.experiment.evaluations:
        if (evaluation.system, evaluation.seed, evaluation.role) == (system, seed, "dev"):
            values = {
                "bleu_tok_compound_split": bleu,
                "bleu_sacre_13a": bleu - 1,
                "ppl_per_subword": ppl,
            }
            write_scores(site, evaluation, values)


def write_baselines(site: Site, corpus: str, testset: str) -> None:
    """Write the baselines of a corpus: the later named, the worse."""
    names = ("nearest", "dictionary", "copy")
    metrics = ("bleu_tok_compound_split", "bleu_tok_moses", "bleu_sacre_13a")
    scores: dict[str, list[ScoreRecord]] = {}
    for rank, name in enumerate(names, start=1):
        scores[name] = [score_of(metric, 8.25 / rank, "e" * 64) for metric in metrics]
    record = BaselineRecords(
        provenance=PROVENANCE, corpus=corpus, testset=testset, scores_by_baseline=scores
    )
    write_record(record, baselines_record(site.results_folder, site.scale.scale, corpus, testset))


def write_measured(site: Site) -> None:
    """Write the record of rule measure, with timings that follow Table 1; nothing without the wing
    that measures.
    """
    if not any(stage.verb == "measure" for stage in present_stages()):
        return
    from analysis.layers.records import MeasureRecord
    from tests.layers.timed_layers import timed_layers  # deleted together with the wing `layers`

    record = MeasureRecord(provenance=PROVENANCE, device_name="a CPU", timings=timed_layers())
    write_record(record, scale_record(site.results_folder, site.scale.scale, "measure"))


def write_binarized(site: Site, corpus: str, target_language: str = "de") -> None:
    """Write the record of a data-bin of one joint vocabulary."""
    languages = ("en", target_language)
    record = msgspec.structs.replace(
        BINARIZED,
        corpus=corpus,
        target_language=target_language,
        dictionary_sha256_by_language=dict.fromkeys(languages, "d"),
        digest="x",
        vocabulary_size_by_language=dict.fromkeys(languages, 504),
        num_pairs_by_split={"train": 100},
        num_tokens_by_split_by_language={"train": {"en": 1100, target_language: 1000}},
    )
    write_record(record, corpus_record(site.results_folder, site.scale.scale, "binarize", corpus))


def write_attempt(
    site: Site, corpus: str, system: str, seed: int, *, update: int = 0, outcome: str | None = None
) -> Path:
    """Write one attempt of a run: open, or ended with an outcome at `update`. Return the run's
    folder.
    """
    folder = Path(site.scale.runs_folder) / run_of(corpus, system, seed)
    folder.mkdir(parents=True, exist_ok=True)
    started = msgspec.structs.replace(made_of("started", Started), update=0 if outcome else update)
    RunFolder(folder).append_event(started)
    if outcome is not None:
        ended = msgspec.structs.replace(made_of("ended", Ended), update=update, outcome=outcome)
        RunFolder(folder).append_event(ended)
    return folder


def write_everything(site: Site, *, base_bleu: float = 70.0, hardware: Hardware = CPU) -> None:
    """Write all records of a site: seed k scores k / 10 above `base_bleu`, so that means can be
    worked out by hand.
    """
    site.experiment.write_sheet(site.results_folder)
    for training in site.experiment.trainings:
        write_training(site, training.corpus, training.system, training.seed, hardware=hardware)
    for evaluation in site.experiment.evaluations:
        value = base_bleu + evaluation.seed / 10
        names = ("bleu_tok_compound_split", "bleu_tok_moses", "bleu_as_given")
        metrics = dict.fromkeys(names, value) | {"bleu_sacre_13a": value - 1}
        if evaluation.has_perplexity:
            metrics["ppl_per_subword"] = 1.5
        write_scores(site, evaluation, metrics)
    for name, corpus in site.experiment.corpora.items():
        write_binarized(site, name, corpus.target_language)
    for name, testset in site.experiment.baselines:
        write_baselines(site, name, testset)
    write_measured(site)


def write_config(site: Site) -> None:
    """Write the files of the scale and the hardware, which `tables --from-logs` reads."""
    path = site.config_folder / f"{site.scale.scale}.yaml"
    _write_yaml(site.scale, path)
    shutil.copy2(CONFIG_FOLDER / "hardware.yaml", site.config_folder)


def write_left(site: Site) -> None:
    """Write all that a scale's runs leave: `write_everything`, translations with their digests, and
    run folders.
    """
    write_everything(site)
    write_config(site)
    for training in site.experiment.trainings:
        name = (training.corpus, training.system, training.seed)
        folder = write_attempt(site, *name, update=3000, outcome="done")
        (folder / "train.log").write_text(
            f"a log of {folder.name}, kept below {folder.absolute()}\n", encoding="utf-8"
        )
    for evaluation in site.experiment.evaluations:
        write_translations(site, evaluation)
    for name, corpus in site.experiment.corpora.items():
        write_raw(site, name, corpus)


def write_translations(site: Site, evaluation: Evaluation) -> None:
    """Write two lines that name system, seed and test set, their record, and their digest into the
    record of score.
    """
    scale_arguments = (site.results_folder, site.scale.scale)
    record_path, scored_path = (
        evaluation_record(*scale_arguments, verb, evaluation) for verb in ("decode", "score")
    )
    text_path = record_path.with_suffix(".txt")
    text_path.parent.mkdir(parents=True, exist_ok=True)
    text = f"{evaluation.system} {evaluation.seed}\n{evaluation.testset}\n"
    text_path.write_text(text, encoding="utf-8", newline="\n")
    sha256 = hashlib.sha256(text_path.read_bytes()).hexdigest()
    hypotheses = msgspec.structs.replace(
        HYPOTHESES,
        run=run_of(evaluation.corpus, evaluation.system, evaluation.seed),
        average=evaluation.average,
        testset=split_alpha(evaluation.testset)[0],
        path=str(text_path.absolute()),
        num_lines=2,
        hypotheses_sha256=sha256,
        signature="beam:4",
    )
    write_record(hypotheses, record_path)
    scored = read_record(scored_path, ScoreRecords)
    scores = [msgspec.structs.replace(score, hypotheses_sha256=sha256) for score in scored.scores]
    write_record(msgspec.structs.replace(scored, scores=scores), scored_path)


def write_raw(site: Site, name: str, corpus: CorpusSpec) -> None:
    """Write the record of fetch: two lines a test set."""
    languages = (corpus.source_language, corpus.target_language)
    pair = TextPair(
        path_by_language=dict.fromkeys(languages, "x"),
        num_lines=2,
        sha256_by_language={language: language * 32 for language in languages},
    )
    pair_by_split = dict.fromkeys(corpus.testsets, pair)
    record = RawCorpus(provenance=PROVENANCE, corpus=name, pair_by_split=pair_by_split)
    write_record(record, corpus_record(site.results_folder, site.scale.scale, "fetch", name))
