"""Registers the wing (optional package) `layers`, which measures the seconds of Table 1's
layers.
"""

from aiayn.wings import Wing, WingStage, WingTable

WING = Wing(
    summary="the seconds of Table 1's layers",
    verbs={"measure": "time the layers of Table 1, without a training"},
    stage=WingStage(
        verb="measure",
        asked_by="has_layer_timing",
        rules="analysis/layers/measure.smk",
        record="analysis.layers.records:MeasureRecord",
    ),
    tables=(
        WingTable(
            "table1", "analysis.layers.tables.table1:lay_out_table1", chapter="model", place=10
        ),
    ),
)
