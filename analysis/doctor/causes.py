"""The checks in the order in which they are made: that of the ranked causes.

`published_rank` is the rank in paper_tables/published/causes.csv; '' where that has none. What a difference of a known
size was measured to cost is in published/costs.csv, under that rank.
"""

import msgspec


class Cause(msgspec.Struct, frozen=True):
    """A check: its key, what it is about, and the published rank of its cause."""

    check: str
    words: str
    published_rank: str


CAUSES = (
    Cause("data", "numbers of pairs", "5a"),
    Cause("vocabulary", "joint vocabulary, of this text", "1a"),
    Cause("alignment", "pairs that are translations", ""),
    Cause("pieces", "pieces joined, detokenised", "1b"),
    Cause("reference_order", "references in their order", "1d"),
    Cause("wrong_checkpoints", "the last checkpoints averaged", "1e"),
    Cause("batch", "target tokens an update", "3"),
    Cause("schedule", "learning rates as printed", ""),
    Cause("divergence", "a training that holds", ""),
    Cause("model", "model and optimiser", ""),
    Cause("norm_order", "order of normalisation", "8"),
    Cause("dropout", "dropout", "7"),
    Cause("smoothing", "label smoothing", "9"),
    Cause("updates", "updates", "6"),
    Cause("average", "number of checkpoints averaged", "10"),
    Cause("search", "search", "11"),
    Cause("lengths", "length of translations", "11"),
    Cause("definition", "definition of the scores", "A2"),
    Cause("testset", "lines of the test set", "13"),
)
PLACE_BY_CHECK = {cause.check: place for place, cause in enumerate(CAUSES)}
CAUSE_BY_CHECK = {cause.check: cause for cause in CAUSES}
