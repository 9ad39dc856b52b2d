"""What is asked for: systems (rows of the paper's tables), corpora and scales, read strictly from workflow/config/.

Names are the paper's symbols in ASCII. fairseq's names appear in `engine/fairseq_args.py` only.
"""

import hashlib
import math
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import ConfigError
from aiayn.strict_yaml import Document, convert, overlay, read_document

CONFIG_FOLDER = Path(__file__).resolve().parents[1] / "config"
SCALES = ("demo", "multi30k", "paper")
_COUNTS = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "warmup_steps", "updates",
           "max_tokens_per_batch", "batches_per_update", "save_interval_updates", "patience_epochs")  # fmt: skip


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all specs: frozen, and closed to unknown keys."""


class TrainingSpec(Spec, frozen=True, kw_only=True):
    """All that decides a model's tensors, apart from data and seed; it makes the run's digest (sections 3 and 5).

    A *batch* holds at most `max_tokens_per_batch` tokens, padding counted, on its longer side; one optimiser step
    (*update*) sums the gradients of `batches_per_update` of them, whether on as many GPUs or one after the other.
    With `save_interval_updates` null, a checkpoint is written at each end of an epoch. With schedule `inverse_sqrt` the
    rate rises linearly from `initial_learning_rate` to `peak_learning_rate`; with `equation_3` both are null.
    """

    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    d_k: int
    d_v: int
    p_drop: float
    eps_ls: float
    positions: Literal["sinusoidal", "learned"]
    adam_beta_1: float
    adam_beta_2: float
    adam_epsilon: float
    clip_norm: float
    schedule: Literal["equation_3", "inverse_sqrt"]
    warmup_steps: int
    peak_learning_rate: float | None
    initial_learning_rate: float | None
    updates: int
    max_tokens_per_batch: int
    batches_per_update: int
    save_interval_updates: int | None
    patience_epochs: int | None
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["fp32"]


class DecodingSpec(Spec, frozen=True, kw_only=True):
    """How translations are searched for (section 6.1); it enters decode, never the run's digest.

    A hypothesis of n tokens, end of sentence included, is ranked by its log-probability over `n^alpha`
    (form `len`, fairseq's) or over `((5 + n) / 6)^alpha` (form `gnmt`, which the paper cites). Its length is at most
    `max_length_per_source_token` * source length + `max_extra_tokens`. `stop: fairseq` ends a sentence when
    `beam_size` hypotheses have ended.
    """

    beam_size: int
    length_penalty_alpha: float
    length_penalty_form: Literal["len", "gnmt"]
    stop: Literal["fairseq"]
    max_length_per_source_token: float
    max_extra_tokens: int


class SystemSpec(Spec, frozen=True, kw_only=True):
    """A system, that is, one row of a table: `inherits` names the system it differs from, by one to three keys."""

    name: str
    description: str
    training: TrainingSpec
    decoding: DecodingSpec
    inherits: str | None = None


class SubwordSpec(Spec, frozen=True, kw_only=True):
    """Byte-pair encoding by sentencepiece (section 5.1); `joint`: one vocabulary of both languages, else one each.

    `vocabulary_size` counts characters and merges; sentencepiece's three control symbols and 256 bytes come on top.
    """

    vocabulary_size: int
    joint: bool


class CleanSpec(Spec, frozen=True, kw_only=True):
    """Which training pairs are dropped; words are what blanks separate. Test sets are never touched."""

    max_words: int
    max_length_ratio: float
    deduplicate: bool


class PublicFile(Spec, frozen=True, kw_only=True):
    """A published file: its path below the corpus's `public_url`, and its SHA-256."""

    path: str
    sha256: str


class GeneratedSource(Spec, frozen=True, kw_only=True, tag="generated", tag_field="kind"):
    """Text made by `aiayn.toy`'s grammar, without network."""

    num_train_pairs: int
    num_dev_pairs: int
    num_test_pairs: int
    grammar_seed: int


class ParallelSource(Spec, frozen=True, kw_only=True, tag="parallel", tag_field="kind"):
    """Plain line-aligned files, gzipped or not: file_by_language for each split (`train` and the test sets)."""

    mirror_folder: str
    public_url: str
    file_by_split: dict[str, dict[str, PublicFile]]


class SegmentedSource(Spec, frozen=True, kw_only=True, tag="segmented", tag_field="kind"):
    """Text that others tokenised and segmented, `@@ ` inside words; skips clean and segment."""

    mirror_folder: str
    public_url: str
    file_by_split: dict[str, dict[str, PublicFile]]


class ArchiveSource(Spec, frozen=True, kw_only=True, tag="archives", tag_field="kind"):
    """Archives of several corpora to be joined (WMT); `archives` are their names in the order of joining."""

    archives: list[str]


class CorpusSpec(Spec, frozen=True, kw_only=True):
    """A corpus: language pair, where its text comes from, its test set of each role, and how it is split in pieces."""

    name: str
    description: str
    language_pair: Literal["en-de", "en-fr"]
    source: GeneratedSource | ParallelSource | SegmentedSource | ArchiveSource
    dev_testset: str
    test_testset: str
    further_testsets: list[str] = []
    clean: CleanSpec | None = None
    subword: SubwordSpec | None = None

    @property
    def source_language(self) -> str:
        """The language that is translated from."""
        return self.language_pair.split("-")[0]

    @property
    def target_language(self) -> str:
        """The language that is translated into."""
        return self.language_pair.split("-")[1]

    @property
    def is_segmented(self) -> bool:
        """True if the text comes ready in pieces."""
        return isinstance(self.source, SegmentedSource)

    @property
    def testsets(self) -> tuple[str, ...]:
        """All test sets: dev, test, then the further ones."""
        return (self.dev_testset, self.test_testset, *self.further_testsets)

    def testset_of(self, role: str) -> str:
        """Return the test set that plays a role, `dev` or `test`."""
        return {"dev": self.dev_testset, "test": self.test_testset}[role]


class ScaleSpec(Spec, frozen=True, kw_only=True):
    """One scale of the benchmark: lists of names, nothing but scalars and lists (Snakemake unites mappings).

    `seeds` are those of Table 2's systems and of replications; `ablation_seeds` those of Table 3's rows.
    """

    scale: Literal["demo", "multi30k", "paper"]
    runs_folder: str
    en_de_corpus: str
    en_fr_corpus: str
    en_de_systems: list[str]
    en_fr_systems: list[str]
    ablation_systems: list[str]
    replications: list[str]
    seeds: list[int]
    ablation_seeds: list[int]
    has_baselines: bool
    cluster: str
    mirror: str | None = None
    allow_long_runs: bool = False


def _system_documents(name: str, scale: str, config_folder: Path) -> list[Document]:
    """Return a system's file and those that it inherits from, itself first."""
    documents = [read_document(config_folder / "systems" / scale / f"{name}.yaml")]
    names = [name]
    while (base_name := documents[-1].values.get("inherits")) is not None:
        place = documents[-1].place("inherits")
        if not isinstance(base_name, str):
            raise ConfigError(f"{place}: inherits is {base_name!r}; expected the name of a system of scale {scale}")
        if base_name in names:
            raise ConfigError(f"{place}: inherits in a circle: {' -> '.join([*names, base_name])}; cut it at its base")
        names.append(base_name)
        try:
            documents.append(read_document(config_folder / "systems" / scale / f"{base_name}.yaml"))
        except ConfigError as error:
            raise ConfigError(f"{place}: inherits {base_name!r}, which cannot be read: {error}") from error
    return documents


def read_system(name: str, scale: str, config_folder: Path = CONFIG_FOLDER) -> SystemSpec:
    """Read a system of a scale, its base's keys under its own.

    Raises:
        ConfigError: with file and line, if a key or value is wrong, the file's name is not the system's, or the system
            equals the one that it inherits from.
    """
    if scale not in SCALES:
        raise ConfigError(f"scale {scale!r}: expected one of {', '.join(SCALES)}")
    documents = _system_documents(name, scale, config_folder)
    document = documents.pop()
    spec = _converted_system(document, document)
    while documents:  # from the base upwards, so that a fault is found in the file that has it
        base, own = spec, documents.pop()
        document = overlay(document, own)
        spec = _converted_system(document, own)
        if (base.training, base.decoding) == (spec.training, spec.decoding):
            raise ConfigError(f"{own.place('inherits')}: {spec.name} equals {base.name}, its base; change a value")
    return spec


def _converted_system(document: Document, own: Document) -> SystemSpec:
    """Turn a system's keys over its base's into a checked spec; `own` is its file alone."""
    for key in ("name", "description"):  # these two are never inherited
        _check(own, key, key in own.values, own.values.get(key), f"a {key} in every system's own file")
    spec = convert(document, SystemSpec)
    _check_name(spec.name, own)
    _check_training(spec.training, document)
    _check_decoding(spec.decoding, document)
    return spec


def _check(document: Document, key: str, is_right: bool, value: object, expected: str) -> None:
    if not is_right:
        raise ConfigError(f"{document.place(key)}: {key} is {value!r}; expected {expected}")


def _check_name(name: str, document: Document) -> None:
    path = document.path
    if name != path.stem:
        raise ConfigError(f"{document.place('name')}: name {name!r}, but the file is {path.name}; make them agree")


def _check_training(training: TrainingSpec, document: Document) -> None:
    def check(key: str, is_right: bool, expected: str) -> None:
        _check(document, f"training.{key}", is_right, getattr(training, key), expected)

    for key in _COUNTS:
        value = getattr(training, key)
        check(key, value is None or value >= 1, "a whole number of 1 or more")
    for key in ("p_drop", "eps_ls", "adam_beta_1", "adam_beta_2"):
        check(key, 0.0 <= getattr(training, key) < 1.0, "a fraction of 0 or more and below 1")
    check("adam_epsilon", 0.0 < training.adam_epsilon < 1.0, "a number above 0 and below 1, such as 1.0e-9")
    check("clip_norm", 0.0 <= training.clip_norm < math.inf, "0.0 (no clipping) or more")
    peak, initial = training.peak_learning_rate, training.initial_learning_rate
    if training.schedule == "equation_3":
        for key in ("peak_learning_rate", "initial_learning_rate"):
            check(key, getattr(training, key) is None, "null, as equation (3) fixes the rate")
    else:
        check("peak_learning_rate", peak is not None and 0.0 < peak < math.inf, "a number above 0")
        is_below = peak is not None and initial is not None and 0.0 <= initial <= peak
        check("initial_learning_rate", is_below, "a number from 0 to peak_learning_rate")


def _check_decoding(decoding: DecodingSpec, document: Document) -> None:
    def check(key: str, is_right: bool, expected: str) -> None:
        _check(document, f"decoding.{key}", is_right, getattr(decoding, key), expected)

    check("beam_size", decoding.beam_size >= 1, "1 or more")
    check("length_penalty_alpha", 0.0 <= decoding.length_penalty_alpha < math.inf, "0 or more")
    check("max_length_per_source_token", 0.0 <= decoding.max_length_per_source_token < math.inf, "0 or more")
    check("max_extra_tokens", decoding.max_extra_tokens >= 1, "1 or more")


def read_corpus(name: str, config_folder: Path = CONFIG_FOLDER) -> CorpusSpec:
    """Read a corpus.

    Raises:
        ConfigError: with file and line, if a key or value is wrong, or a split or language lacks its file.
    """
    document = read_document(config_folder / "corpora" / f"{name}.yaml")
    spec = convert(document, CorpusSpec)
    _check_name(spec.name, document)
    needs_subword = not spec.is_segmented
    expected = "given, as the text comes in words" if needs_subword else "absent: the text comes in pieces"
    _check(document, "subword", (spec.subword is not None) == needs_subword, spec.subword, expected)
    _check(document, "clean", (spec.clean is not None) == needs_subword, spec.clean, expected)
    if isinstance(spec.source, ParallelSource | SegmentedSource):
        for split in ("train", *spec.testsets):
            languages = sorted(spec.source.file_by_split.get(split, {}))
            is_whole = languages == sorted((spec.source_language, spec.target_language))
            _check(document, "source.file_by_split", is_whole, f"{split}: {languages}",
                   f"one file of each language of {spec.language_pair} for split {split}")  # fmt: skip
    return spec


def read_scale(path: Path) -> ScaleSpec:
    """Read a scale's config file (workflow/config/<scale>.yaml).

    Raises:
        ConfigError: with file and line, if a key or value is wrong or a name or seed stands twice in a list.
    """
    return _checked_scale(read_document(path))


def convert_scale(config: dict[str, object], origin: str) -> ScaleSpec:
    """Turn Snakemake's merged config into a ScaleSpec; `origin` names where it came from in errors."""
    # Snakemake hands over the items of `--config 'seeds=[1]'` as text.
    return _checked_scale(Document(Path(origin), dict(config), {}), strict=False)


def _checked_scale(document: Document, *, strict: bool = True) -> ScaleSpec:
    scale = convert(document, ScaleSpec, strict=strict)
    for key in ("en_de_systems", "en_fr_systems", "ablation_systems", "replications", "seeds", "ablation_seeds"):
        values = getattr(scale, key)  # a seed said twice would count as two runs in a mean and its interval
        _check(document, key, len(set(values)) == len(values), values, "each value once")
    for key in ("seeds", "ablation_seeds"):
        _check(document, key, all(seed >= 1 for seed in getattr(scale, key)), getattr(scale, key), "seeds of 1 or more")
    return scale


def spec_digest(spec: msgspec.Struct) -> str:
    """Return 16 hexadecimal digits over the parsed values: a comment changes nothing, a value does."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def run_name(
    *, corpus: str, system: str, seed: int, training: TrainingSpec, data_digest: str, stage_version: int
) -> str:
    """Return `<corpus>-<system>-seed<k>-<digest8>`; the digest holds what decides the tensors, and nothing else."""
    parts = [msgspec.json.encode(training, order="deterministic").decode(), str(seed), data_digest, str(stage_version)]
    digest8 = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
    return f"{corpus}-{system}-seed{seed}-{digest8}"
