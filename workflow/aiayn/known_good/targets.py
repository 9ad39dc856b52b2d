"""Reads the targets. A target is a system with a corpus, and the values that a training log must
have for its numbers to be entered in this system's table row. The systems are at the paper's scale
or at a smaller scale, such as Multi30k's.
"""

from collections.abc import Sequence
from pathlib import Path

from aiayn.facts.symbols import Symbols, symbols_of_spec
from aiayn.facts.trainings import ANY, Target, TargetValue
from aiayn.printed import PAPER_SCALE, read_cells
from aiayn.spec.system import CONFIG_FOLDER, DecodingSpec, TrainingSpec, read_system

# Section 5.1: "about 4.5 million sentence pairs" and "36M sentences", "about 37000 tokens" and
# "32000". newstest2013 has 3,000 sentences, newstest2014 3,003. The tokens of the references depend
# on the tokenizer: 60,000 to 72,000, and 70,000 to 92,000.
_PAPER: dict[str, dict[str, TargetValue]] = {
    "en-de": {
        "train_pairs": 4_500_000,
        "num_types": 37_000,
        "dev_pairs": 3000,
        "wmt_years": (14, 16),
        "test_sentences": 3003,
        "dev_sentences": 3000,
        "reference_tokens": 65_500,
    },
    "en-fr": {
        "train_pairs": 36_000_000,
        "num_types": 32_000,
        "dev_pairs": ANY,
        "wmt_years": (14,),
        "test_sentences": 3003,
        "dev_sentences": ANY,
        "reference_tokens": 81_000,
    },
}
# fairseq's own joint dictionaries of En-De and En-Fr have 32,768 and 44,512 types.
_PAPER_COMMON: dict[str, TargetValue] = {
    "num_dictionaries": 1,
    "low_types": 32_000,
    "high_types": 45_000,
    # Between the 25,000 of section 5.1 and the larger batches of other projects.
    "target_tokens": 27_500,
}
# The corpus of a smaller scale is not compared by numbers: it has a record, and the digest of the
# record is in the name of the run.
_SMALLER: dict[str, TargetValue] = dict.fromkeys(
    (
        "train_pairs",
        "num_types",
        "low_types",
        "high_types",
        "dev_pairs",
        "wmt_years",
        "test_sentences",
        "dev_sentences",
        "reference_tokens",
        "target_tokens",
    ),
    ANY,
) | {"num_dictionaries": 1}


def read_targets(scales: Sequence[str], config_folder: Path = CONFIG_FOLDER) -> list[Target]:
    """Return the targets of these scales: the systems and language pairs that have numbers in the
    paper's tables. The targets at the paper's scale are first. Within a scale, the systems have the
    order of Table 3.

    Raises:
        ConfigError: if the YAML file of a system cannot be read.
    """
    averages: dict[tuple[str, str], dict[str, str]] = {}
    for cell in read_cells():
        by_role = averages.setdefault((cell.system, cell.language_pair), {})
        # All cells of a system with the same role (dev or test) have the same average.
        by_role.setdefault(cell.role, cell.average)
    targets = []
    for scale in sorted(scales, key=lambda scale: scale != PAPER_SCALE):
        for (name, pair), average_by_role in averages.items():
            # A smaller scale need not have every row.
            if not (config_folder / "systems" / scale / f"{name}.yaml").exists():
                continue
            spec = read_system(name, scale, config_folder)
            targets.append(
                make_target(scale, name, pair, spec.training, spec.decoding, average_by_role)
            )
    return targets


def make_target(
    scale: str,
    system: str,
    language_pair: str,
    training: TrainingSpec,
    decoding: DecodingSpec,
    average_by_role: dict[str, str],
    *,
    is_papers_corpus: bool | None = None,
) -> Target:
    """Make the target of a system from the settings of the system and the properties of its corpus.

    `is_papers_corpus` says whether the corpus is WMT14. If `is_papers_corpus` is None, the corpus
    counts as WMT14 at the paper's scale only.
    """
    symbols: Symbols = symbols_of_spec(training)
    values: dict[str, TargetValue] = {**symbols, "language_pair": language_pair}
    # The settings of the search (section 6.1) are also part of a system.
    values["beam_size"] = decoding.beam_size
    values["length_penalty_alpha"] = decoding.length_penalty_alpha
    if is_papers_corpus is None:
        is_papers_corpus = scale == PAPER_SCALE
    values |= _PAPER[language_pair] | _PAPER_COMMON if is_papers_corpus else _SMALLER
    # With early stopping, the validation loss decides how many updates a training has.
    if training.patience_epochs:
        values["updates"] = ANY
    return Target(
        scale=scale,
        system=system,
        language_pair=language_pair,
        values=values,
        average_by_role=average_by_role,
        training=training,
    )
