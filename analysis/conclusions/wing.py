"""Registers the wing `conclusions`: which of the paper's conclusions hold here, and how variants
compare with base.
"""

from aiayn.wings import Wing, WingFigure, WingTable

WING = Wing(
    summary="which of the paper's conclusions hold here",
    tables=(
        WingTable(
            "conclusions",
            "analysis.conclusions.tables.conclusions:lay_out_conclusions",
            chapter="results",
            place=20,
            is_always_packed=True,
        ),
        WingTable(
            "readings",
            "analysis.conclusions.tables.readings:lay_out_readings",
            chapter="variations",
            place=12,
        ),
        WingTable(
            "horizon",
            "analysis.conclusions.tables.horizon:lay_out_horizon",
            chapter="variations",
            place=14,
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
        WingTable(
            "one_run",
            "analysis.conclusions.tables.one_run:lay_out_one_run",
            chapter="claims_of_others",
            place=30,
        ),
        WingTable(
            "seed_noise",
            "analysis.conclusions.tables.seed_noise:lay_out_seed_noise",
            chapter="claims_of_others",
            place=40,
        ),
    ),
    figures=(WingFigure("forest", chapter="variations", place=10),),
    scale_figures="analysis.conclusions.heavy_forest:figures_of_scale",
    answer="analysis.conclusions.answer:answer_of_scale",
)
