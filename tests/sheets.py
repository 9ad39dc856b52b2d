"""Makes the sheet of a made scale from the systems and seeds of each table."""

from collections.abc import Mapping
from typing import Any

from aiayn.experiment import published_runs
from aiayn.printed import evaluations_of, is_asked_for
from aiayn.spec.sheet import TABLES, SheetRow

# An entry of `later_seeds` is `system:1,2`.
DEFAULTS: dict[str, Any] = {
    "en_de_systems": ["base", "big"],
    "en_fr_systems": ["base", "big_enfr"],
    "ablation_systems": ["table3_c_n2"],
    "replications": [],
    "variants": [],
    "architectures": [],
    "seeds": [1, 2],
    "ablation_seeds": [1],
    "variant_seeds": [1],
    "later_seeds": [],
    "row_testsets": [],
    "probed_alpha": None,
}


def make_rows(corpus_by_pair: Mapping[str, str], changes: Mapping[str, Any]) -> list[SheetRow]:
    """Return the rows of a sheet, a row for each training. `changes` are to DEFAULTS."""
    lists = DEFAULTS | dict(changes)
    en_de, en_fr = corpus_by_pair["en-de"], corpus_by_pair["en-fr"]
    words_by_training: dict[tuple[str, str, int], list[str]] = {}

    def add(word: str, corpus: str, systems: list[str], seeds: list[int]) -> None:
        for system in systems:
            for seed in seeds:
                words_by_training.setdefault((corpus, system, seed), []).append(word)

    for system in lists["en_de_systems"]:
        for table in ("table2", "table3"):
            add(table, en_de, [system], lists["seeds"])
    add("table2", en_fr, lists["en_fr_systems"], lists["seeds"])
    add("table3", en_de, lists["ablation_systems"], lists["ablation_seeds"])
    for run in published_runs().values():
        if run.row in lists["replications"]:
            add("replications", run.corpus, [run.system], lists["seeds"])
    for table in ("variants", "architectures"):
        if lists[table]:
            add(table, en_de, ["base"], lists["variant_seeds"])
    for table in ("variants", "architectures"):
        add(table, en_de, lists[table], lists["variant_seeds"])
    for entry in lists["later_seeds"]:
        system, _, seeds_text = entry.partition(":")
        add("decision0012", en_de, [system], [int(seed) for seed in seeds_text.split(",")])
    rows = []
    for (corpus, system, seed), words in words_by_training.items():
        row = SheetRow(
            corpus=corpus,
            system=system,
            seeds=(seed,),
            evaluations=_evaluations(corpus, system, words, en_fr, lists),
            asked_by=tuple(sorted(set(words), key=[*TABLES, "decision0012"].index)),
        )
        rows.append(row)
    return _joined(rows)


def _evaluations(
    corpus: str, system: str, words: list[str], en_fr: str, lists: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return what the tables ask of a training, as the shipped sheets do."""
    run = published_runs().get((corpus, system))
    pair = "en-fr" if corpus == en_fr else "en-de"
    if run is not None:
        return (f"{run.average}/{run.role}",)
    is_printed = is_asked_for(pair, system)
    evaluations = ["last1/dev"]
    if is_printed:
        evaluations = [f"{average}/{role}" for average, role in evaluations_of(pair, system)]
    if pair == "en-de" and (is_printed or "decision0012" in words):
        evaluations += [f"last1/{testset}" for testset in lists["row_testsets"]]
        if lists["probed_alpha"] is not None:
            evaluations.append(f"last1/dev-alpha{lists['probed_alpha']:g}")
    return tuple(evaluations)


def _joined(rows: list[SheetRow]) -> list[SheetRow]:
    """Return one row for neighbours that differ in their seed only."""
    joined: dict[tuple[str, str, tuple[str, ...]], SheetRow] = {}
    for row in rows:
        key = (row.corpus, row.system, row.asked_by)
        seeds = row.seeds if key not in joined else (*joined[key].seeds, *row.seeds)
        joined[key] = SheetRow(
            corpus=row.corpus,
            system=row.system,
            seeds=seeds,
            evaluations=row.evaluations,
            asked_by=row.asked_by,
        )
    return list(joined.values())
