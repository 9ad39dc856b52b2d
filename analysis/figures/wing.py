"""Registers the wing (optional package) `figures`, which draws curves of trainings and attention
weights.
"""

from aiayn.wings import Wing, WingFigure

WING = Wing(
    summary="drawings",
    verbs={
        "plot": "draw the curves of runs, live or done, or of any fairseq logs",
        "attention": "draw what a trained run attends to in a sentence (Figures 3 to 5)",
    },
    figures=(
        WingFigure("curves", chapter="trainings", place=10),
        WingFigure("attention", chapter="model", place=10),
    ),
    scale_figures="analysis.figures.heavy_registry:figures_of_scale",
)
