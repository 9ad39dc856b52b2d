"""Scales whose tables have every kind of cell: seeds that are missing, fail or run, GPUs and none,
rows uncalled.
"""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.paths import corpus_record, evaluation_record, train_record
from aiayn.records import Hardware, PerplexityRecord, TrainRecord, read_record, write_record
from aiayn.spec.system import read_system
from tests import records_factory
from tests.records_factory import (
    CPU,
    EIGHT_P100,
    Site,
    make_site,
    run_of,
    write_attempt,
    write_config,
    write_dev_scores,
    write_everything,
)

A100 = msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA A100-SXM4-80GB")
VOODOO = msgspec.structs.replace(EIGHT_P100, gpu="Voodoo 2")


def change_train(site: Site, corpus: str, system: str, seed: int, **changes: Any) -> None:
    """Change what the record of a training holds."""
    path = train_record(site.results_folder, site.scale.scale, corpus, system, seed)
    write_record(msgspec.structs.replace(read_record(path, TrainRecord), **changes), path)


def lose_training(site: Site, corpus: str, system: str, seed: int) -> None:
    """Delete the record of a training."""
    train_record(site.results_folder, site.scale.scale, corpus, system, seed).unlink()


def write_log(site: Site, system: str, seed: int, bits_by_update: dict[int, float]) -> None:
    """Write a run's log of validations where its record has it."""
    folder = Path(site.scale.runs_folder) / run_of("demo_en_de", system, seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = (
        f'| INFO | valid | {{"valid_nll_loss": "{bits}", "valid_num_updates": "{update}"}}\n'
        for update, bits in bits_by_update.items()
    )
    (folder / "train.log").write_text("".join(lines), encoding="utf-8")


def write_attention(
    site: Site, system: str, seed: int, entropies: list[list[float]], bits_lost: float
) -> None:
    """Let a record of perplexity have the entropy of its heads, and what is lost without attention."""
    (one,) = (
        e
        for e in site.experiment.evaluations
        if (e.system, e.seed, e.role) == (system, seed, "dev")
    )
    path = evaluation_record(site.results_folder, "demo", "perplexity", one)
    record = read_record(path, PerplexityRecord)
    changed = msgspec.structs.replace(
        record, cross_attention_entropy=entropies, bits_lost_uniform=bits_lost
    )
    write_record(changed, path)


def own_specs(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all trainings be made under the specs of the project's own files."""
    for path in (records_factory.CONFIG_FOLDER / "systems" / scale).glob("*.yaml"):
        monkeypatch.setitem(
            records_factory.TRAINING_BY_SYSTEM, path.stem, read_system(path.stem, scale).training
        )


def make_demo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a demo of 500 updates: of base in English-French a seed failed and one runs; variants,
    rows, architectures.

    Base has 2.9, 3.0 and 3.1 bits (sd 0.1) and 24.8, 25.0 and 25.2 BLEU. Of 500 updates 60, 80 and
    100 % are 300, 400 and 500, and 30 % are 150.
    """
    own_specs("demo", monkeypatch)
    rows = ["table3_c_n2", "table3_c_n4", "table3_d_els0", "table3_e_learned", "table3_c_dff1024"]
    site = make_site(
        Path(),
        en_de_systems=["base"],
        en_fr_systems=["base"],
        ablation_systems=rows,
        variants=["pre_norm", "untied"],
        architectures=["lstm"],
        seeds=[1, 2, 3],
        ablation_seeds=[1, 2],
        variant_seeds=[1, 2, 3],
        has_layer_timing=False,
    )
    write_everything(site)
    write_config(site)
    for seed, step in ((1, -1), (2, 0), (3, 1)):
        write_dev_scores(site, "base", seed, 25 + 0.2 * step, 2 ** (3 + 0.1 * step))
        write_dev_scores(site, "pre_norm", seed, 25 + seed, 2 ** (3 + 0.1 * step))
        write_log(site, "base", seed, {100: 4.4, 300: 3.3, 400: 3.1, 500: 3 + 0.1 * step})
        if seed < 3:
            write_log(site, "lstm", seed, {100: 9.0, 250: 4.0, 500: math.log2(9)})
        change_train(site, "demo_en_de", "lstm", seed, wall_seconds=300.0)
    change_train(
        site, "demo_en_de", "lstm", 3, hardware=msgspec.structs.replace(CPU, cpu="another CPU")
    )
    for seed in (1, 2):
        write_dev_scores(site, "table3_c_n2", seed, 23.9, 2**3.6)  # holds, and moves: late
        write_log(site, "table3_c_n2", seed, {100: 5.5, 200: 4.4, 300: 4.3, 400: 4.2, 500: 3.6})
        write_dev_scores(site, "table3_c_n4", seed, 25.1, 2**3.05)  # too close
        write_attention(site, "table3_c_n4", seed, [[0.9, 0.6], [0.8, 0.7]], 2.0)
        write_dev_scores(
            site, "table3_d_els0", seed, 25.0, 2 ** (3.5 if seed == 1 else 2.5)
        )  # seeds disagree
        write_dev_scores(site, "table3_e_learned", seed, 20.0, 2**3.0 if seed == 1 else 2**6.0)
        write_attention(
            site,
            "table3_e_learned",
            seed,
            [[0.999, 0.985], [1.0, 0.99]],
            2.0 if seed == 1 else 0.001,
        )
    for seed in (1, 2, 3):
        lose_training(site, "demo_en_de", "untied", seed)
    lose_training(site, "demo_en_de", "table3_c_dff1024", 2)
    for seed, outcome in ((2, "failed"), (3, None)):
        lose_training(site, "demo_en_fr", "base", seed)
        write_attempt(site, "demo_en_fr", "base", seed, update=300, outcome=outcome)
    (site.results_folder / "demo/score/demo_en_de/pre_norm/seed3/last1/demo_dev.json").unlink()


def make_paper(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the paper's scale: base is reproduced (mean 27.3, sd 0.1). The costs of its rows are
    known in every way.
    """
    own_specs("paper", monkeypatch)
    rows = [
        "table3_a_h1",
        "table3_a_h4",
        "table3_a_h16",
        "table3_a_h32",
        "table3_b_dk16",
        "table3_b_dk32",
    ]
    site = make_site(
        Path(),
        "paper",
        ablation_systems=rows,
        seeds=[1, 2, 3],
        ablation_seeds=[1],
        has_baselines=False,
        has_layer_timing=False,
    )
    write_everything(site, base_bleu=27.1, hardware=EIGHT_P100)
    write_config(site)
    for seed, tokens in ((1, 900_000), (2, 1_000_000), (3, 1_100_000)):
        change_train(site, "wmt14_en_de", "base", seed, tokens=tokens * 1000)
    changes: dict[str, tuple[Hardware, dict[str, Any]]] = {
        "table3_a_h4": (A100, {}),
        "table3_a_h16": (CPU, {"gpu_seconds": 0.0}),
        "table3_a_h32": (VOODOO, {}),
        "table3_b_dk32": (EIGHT_P100, {"gpu_seconds": 0.0, "wall_seconds": 0.0}),
    }
    for system, (hardware, values) in changes.items():
        change_train(site, "wmt14_en_de", system, 1, hardware=hardware, **values)
    lose_training(site, "wmt14_en_fr", "base", 3)
    corpus_record(site.results_folder, "paper", "binarize", "wmt14_en_fr").unlink()
