"""The flags that change a search, and the search that they change."""

import msgspec

from aiayn.cli.flags import flag
from aiayn.spec.training import DecodingSpec

LENGTH_PENALTY_FORM = flag("len is fairseq's (default: the system's own)")
STOP = flag("stopping rule (default: the system's own)")


def changed_search(decoding: DecodingSpec, args: object) -> DecodingSpec:
    """Return a system's search with what the flags of the same names set."""
    named = {key: getattr(args, key, None) for key in DecodingSpec.__struct_fields__}
    return msgspec.structs.replace(
        decoding, **{key: value for key, value in named.items() if value is not None}
    )
