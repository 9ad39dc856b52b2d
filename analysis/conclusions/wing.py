"""Registers the wing (optional package) `conclusions`, which says which of the paper's conclusions
hold here, and how variants compare with base.
"""

from aiayn.wings import Wing, WingTable

WING = Wing(
    summary="which of the paper's conclusions hold here",
    # `place` orders all tables of a chapter: of the core, of this wing and of other wings.
    tables=(
        WingTable(
            "conclusions",
            "analysis.conclusions.tables.conclusions:lay_out_conclusions",
            chapter="results",
            place=20,
            is_always_packed=True,
        ),
        WingTable(
            "recurrence",
            "analysis.conclusions.tables.fresh:lay_out_recurrence",
            chapter="results",
            place=24,
        ),
        WingTable(
            "heads",
            "analysis.conclusions.tables.fresh:lay_out_heads",
            chapter="variations",
            place=16,
        ),
        WingTable(
            "model_readings",
            "analysis.conclusions.tables.fresh:lay_out_model_readings",
            chapter="variations",
            place=18,
        ),
        WingTable(
            "testsets",
            "analysis.conclusions.tables.testsets:lay_out_testsets",
            chapter="variations",
            place=20,
        ),
        WingTable(
            "variants",
            "analysis.conclusions.tables.variants:lay_out_variants",
            chapter="variations",
            place=30,
        ),
        WingTable(
            "architectures",
            "analysis.conclusions.tables.variants:lay_out_architectures",
            chapter="variations",
            place=40,
        ),
    ),
    answer="analysis.conclusions.answer:picture_of_scale",
)
