"""Registers the wing `tools`: further uses of a trained run, and timings of Table 1's layers."""

from aiayn.wings import Wing, WingStage, WingTable

WING = Wing(
    summary="further uses of a trained run",
    verbs={
        "evaluate": "translate a test set with any fairseq model, and score it",
        "pack": ("pack the files of finished runs, small enough to ship, with their tables"),
        "export": "export a run's averaged model to safetensors",
        "measure": "time the layers of Table 1, without a training",
    },
    stage=WingStage(
        verb="measure",
        asked_by="has_layer_timing",
        rules="analysis/tools/measure.smk",
        record="analysis.tools.records:MeasureRecord",
    ),
    tables=(
        WingTable(
            "table1", "analysis.tools.tables.table1:lay_out_table1", chapter="model", place=10
        ),
    ),
)
