"""What each training cost, worked out by hand from its record; what is not known is a dash that
says why.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.cost import SentenceLengths, model_flops
from aiayn.paths import train_record
from aiayn.records import Beginning, Hardware, write_record
from analysis.price.tables.costs import lay_out_costs
from paper_tables.layout import Table
from tests.laid_out import frame_of, notes_of, rows_of
from tests.records_factory import (
    BASE_TRAINING,
    EIGHT_P100,
    Site,
    make_site,
    write_binarized,
    write_training,
)

# write_binarized: 100 sentences of 1,100 source and 1,000 target tokens, 504 symbols;
# write_training: 1,000,000 tokens.
FLOPS = model_flops(
    BASE_TRAINING,
    504,
    source_tokens=1.1e6,
    target_tokens=1.0e6,
    lengths=SentenceLengths(source=11.0, target=10.0),
)


def site_of(
    folder: Path, hardware: Hardware, seeds: list[int] | None = None, **changes: Any
) -> Site:
    """Return a site of the paper's scale with trainings of base, `changes` to their records."""
    seeds = seeds or [1]
    site = make_site(
        folder, "paper", en_fr_systems=[], ablation_systems=[], en_de_systems=["base"], seeds=seeds
    )
    write_binarized(site, "wmt14_en_de")
    for seed in seeds:
        train = write_training(
            site, "wmt14_en_de", "base", seed, hardware=hardware, wall_seconds=100.0
        )
        path = train_record(site.results_folder, "paper", "wmt14_en_de", "base", seed)
        write_record(msgspec.structs.replace(train, **changes), path)
    return site


def row_of(table: Table) -> dict[str, str]:
    (row,) = rows_of(table)
    return row


def test_every_column_by_hand(tmp_path: Path) -> None:  # 100 s on 8 P100: 800 GPU-seconds
    table = lay_out_costs(frame_of(site_of(tmp_path, EIGHT_P100, tokens=1_000_000_000)))
    row = row_of(table)
    assert row["target_tokens"] == "1,000,000,000"
    assert float(row["model_flops"]) == pytest.approx(1000 * FLOPS, rel=0.05)
    assert row["estimated_flops"] == "7.6e15"  # 800 x 9.5e12
    assert float(row["utilisation_percent"]) == pytest.approx(100 * 1000 * FLOPS / 7.6e15, abs=0.05)
    assert (row["wall_hours"], row["gpu_hours"]) == ("0.03", "0.22")
    assert row["dollars"] == "0.32"  # 0.222 h at $1.46
    assert "$1.46 an hour (assumption" in notes_of(table)


def test_a_continued_training_uses_its_gpus_for_its_own_updates_only(tmp_path: Path) -> None:
    """Its seconds begin at update 175 of 700, its tokens at update 0."""
    beginning = Beginning(run="shorter", update=175, tensors_sha256="0")
    site = site_of(tmp_path, EIGHT_P100, tokens=1_000_000_000, updates=700, beginning=beginning)
    row = row_of(lay_out_costs(frame_of(site)))
    utilisation = 100 * 0.75 * 1000 * FLOPS / 7.6e15
    assert float(row["utilisation_percent"]) == pytest.approx(utilisation, abs=0.05)


def test_tensor_cores_are_held_against_their_own_peak(tmp_path: Path) -> None:
    hardware = msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA A100-SXM4-80GB")
    training = msgspec.structs.replace(BASE_TRAINING, precision="bf16")
    json_text = msgspec.json.encode(training, order="deterministic").decode()
    site = site_of(tmp_path, hardware, training_json=json_text, tokens=10**11)
    site = with_scale(site, precision="bf16")
    row = row_of(lay_out_costs(frame_of(site)))
    assert float(row["utilisation_percent"]) == pytest.approx(
        100 * 1e5 * FLOPS / (800 * 3.12e14), abs=0.05
    )


def with_scale(site: Site, **changes: Any) -> Site:
    """Return the site with another scale config."""
    return Site(
        msgspec.structs.replace(site.scale, **changes), site.config_folder, site.results_folder
    )


def test_what_was_not_trained_takes_one_line(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    table = lay_out_costs(frame_of(site))
    assert table.cells.empty
    assert [note.text.split(":")[0] for note in table.notes] == ["Not finished"]
    assert table.signatures == ()
