"""Registers the wing (optional package) `price`, which predicts what a training costs and shows
what it has cost.
"""

from aiayn.wings import Wing, WingTable

WING = Wing(
    summary="the price before the start",
    verbs={
        "plan": "predict what a config or a system takes: hours, GPU-hours, money, disk, memory",
        "preflight": (
            "check what a config needs before it is started: mirrors, disk, Slurm, versions"
        ),
    },
    tables=(
        WingTable(
            "costs", "analysis.price.tables.costs:lay_out_costs", chapter="trainings", place=10
        ),
    ),
)
