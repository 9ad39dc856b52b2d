"""The figures: curves of trainings, results beside the printed ones, and the paper's own figures.

A figure is a function from a tidy frame to an Altair chart, without any state: `figure.py` defines it, `registry.py`
lists all. May import `tables` and the modules of `paper_tables` itself. Altair is an extra, imported here alone.
"""

import importlib

INDEX_NAME = "figures.tsv"  # what was drawn in a folder, and why not
INSTALL_COMMAND = "pip install -e '.[figures]'"
# Figures 3 and 4 of the paper: the sentences, and the word of each whose attention they follow.
PAPER_SENTENCES = {
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
    "registration or voting process more difficult.": "making",
    "The Law will never be perfect, but its application should be just - this is what we are missing, in my "
    "opinion.": "its",
}


def has_figures() -> bool:
    """Return whether the extra `figures` is installed: Altair, and vl-convert, which draws without a browser."""
    try:
        for name in ("altair", "vl_convert"):
            importlib.import_module(name)
    except ImportError:
        return False
    return True
