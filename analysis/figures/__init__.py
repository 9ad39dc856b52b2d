"""Draws figures: curves of trainings, our results next to the paper's, and the paper's own figures.

A figure is a function from a tidy frame to an Altair chart, without any state:
`paper_tables/render/figure.py` defines the type of a figure, `heavy_registry.py` lists all figures.
Only modules called `heavy_*.py` import torch, or Altair, which is an optional dependency.
"""

# What `aiayn attention` writes and the figures of attention read: a line for each weight.
ATTENTION_COLUMNS = (
    "run",
    "kind",
    "layer",
    "num_layers",
    "head",
    "query_index",
    "query",
    "key_index",
    "key",
    "weight",
)

# The sentences of Figures 3 and 4 of the paper. Each figure shows the attention of one word.
PAPER_SENTENCES = {
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the registration or voting process more difficult.": (  # noqa: E501
        "making"
    ),
    "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion.": (  # noqa: E501
        "its"
    ),
}
