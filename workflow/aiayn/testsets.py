"""Public test sets by name, through sacreBLEU's own data sets: downloaded once, MD5-checked, kept in its cache."""

from pathlib import Path

import sacrebleu
from sacrebleu.dataset import DATASETS

from aiayn.errors import FetchError, ScoreError
from aiayn.text import read_lines

# Our names to sacreBLEU's. newstest2014 is the full set of 3,003 lines, on which the paper's numbers stand; sacreBLEU's
# `wmt14` is the filtered one of 2,737.
SACREBLEU_NAME_BY_TESTSET = {
    "newstest2013": "wmt13",
    "newstest2014": "wmt14/full",
    "newstest2014_filtered": "wmt14",
}


def public_references(testset: str, language_pair: str) -> list[str]:
    """Return the reference lines of a public test set, downloading it if it is not in sacreBLEU's cache.

    Raises:
        ScoreError: if sacreBLEU knows no such test set or not in this language pair.
        FetchError: if it cannot be had.
    """
    name = SACREBLEU_NAME_BY_TESTSET.get(testset, testset)
    if name not in DATASETS:
        known = ", ".join([*SACREBLEU_NAME_BY_TESTSET, "and sacreBLEU's own names (wmt17, ...)"])
        raise ScoreError(
            f"test set {testset!r}: not a public one; give its references with --references FILE (known: {known})"
        )
    if language_pair not in DATASETS[name].langpairs:
        raise ScoreError(
            f"test set {testset!r}: not published for {language_pair}; it has {', '.join(DATASETS[name].langpairs)}"
        )
    try:
        path = sacrebleu.get_reference_files(name, language_pair)[0]
    except (OSError, SystemExit) as error:  # sacreBLEU exits on a wrong MD5 and on a failed download
        raise FetchError(
            f"test set {testset!r} ({name}): sacreBLEU could not download it ({error}); put its archive in its cache "
            "(variable SACREBLEU, by default ~/.sacrebleu), or give --references FILE"
        ) from error
    return list(read_lines(Path(path)))
