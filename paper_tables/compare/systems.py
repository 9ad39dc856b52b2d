"""The paper's systems as a comparison needs them, and the system whose hyper-parameters a training
has.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.facts.symbols import ROW_SYMBOLS, Symbol, Symbols, are_equal, is_ours, symbols_of_spec
from aiayn.logs.evidence import real_number
from aiayn.logs.types import Argument
from aiayn.printed import PAPER_SCALE, read_cells
from aiayn.spec.system import CONFIG_FOLDER, TrainingSpec, read_system


class PaperSystem(msgspec.Struct, frozen=True):
    """A system at a scale: the symbols of its training, the search and the averages of its
    translations, and the spec of its training.

    `average_by_use` has keys such as `test_en-de`. Only a system of the paper's scale has the
    paper's corpus.
    """

    scale: str
    system: str
    language_pairs: tuple[str, ...]
    symbols: Symbols
    decoding: Symbols
    average_by_use: dict[str, str]
    training: TrainingSpec

    @property
    def has_papers_corpus(self) -> bool:
        """Whether the system is trained on WMT14, of which the paper states the sizes."""
        return self.scale == PAPER_SCALE


class Match(msgspec.Struct, frozen=True):
    """The system whose hyper-parameters a log has; or None, the nearest system, and the symbols
    that differ.
    """

    system: PaperSystem | None
    nearest: PaperSystem | None
    differences: tuple[tuple[str, Symbol | None, Symbol], ...]


def read_systems(scales: Sequence[str], config_folder: Path = CONFIG_FOLDER) -> list[PaperSystem]:
    """Return the systems whose rows the paper prints, at these scales, the paper's scale first.

    Raises:
        ConfigError: if a system of the tables cannot be read.
    """
    pairs_by_system: dict[str, dict[str, None]] = {}
    averages: dict[str, dict[str, str]] = {}
    for join in read_cells():
        pairs_by_system.setdefault(join.system, {})[join.language_pair] = None
        averages.setdefault(join.system, {})[f"{join.role}_{join.language_pair}"] = join.average
    systems = []
    for scale in sorted(scales, key=lambda scale: scale != PAPER_SCALE):
        for name, pairs in pairs_by_system.items():
            if not (config_folder / "systems" / scale / f"{name}.yaml").exists():
                continue  # a smaller scale may lack a row
            spec = read_system(name, scale, config_folder)
            decoding: Symbols = {
                "beam_size": spec.decoding.beam_size,
                "length_penalty_alpha": spec.decoding.length_penalty_alpha,
            }
            symbols = symbols_of_spec(spec.training)
            systems.append(
                PaperSystem(
                    scale, name, tuple(pairs), symbols, decoding, averages[name], spec.training
                )
            )
    return systems


def find_system(symbols: Symbols, language_pair: str, systems: Sequence[PaperSystem]) -> Match:
    """Return the system whose ROW_SYMBOLS are all the log's; systems that come first win over later
    ones.

    A symbol that the log lacks cannot match. Without a system that is trained on this language
    pair, the nearest is looked up among all.
    """
    candidates = [system for system in systems if language_pair in system.language_pairs]
    if not systems:
        return Match(None, None, ())
    nearest = min(
        candidates or systems, key=lambda system: _distance(_differences(symbols, system))
    )
    differences = _differences(symbols, nearest)
    is_found = bool(candidates) and not differences
    return Match(nearest if is_found else None, nearest, tuple(differences))


def systems_for(
    arguments: Mapping[str, Argument], systems: Sequence[PaperSystem]
) -> list[PaperSystem]:
    """Return the systems that a training may be: only our own trainings are compared with smaller
    scales.
    """
    return [system for system in systems if system.has_papers_corpus or is_ours(arguments)]


def _differences(symbols: Symbols, system: PaperSystem) -> list[tuple[str, Symbol | None, Symbol]]:
    return [
        (name, symbols.get(name), system.symbols[name])
        for name in ROW_SYMBOLS
        if name not in symbols or not are_equal(symbols[name], system.symbols[name])
    ]


def _distance(differences: Sequence[tuple[str, Symbol | None, Symbol]]) -> tuple[int, float]:
    """Return how many symbols differ, and by how much the sizes do (sum of the logarithms of their
    ratios).
    """
    reach = 0.0
    for _, value, expected in differences:
        number, own = real_number(value) or 0.0, real_number(expected) or 0.0
        reach += abs(math.log(number / own)) if number > 0 and own > 0 else 1.0
    return len(differences), reach
