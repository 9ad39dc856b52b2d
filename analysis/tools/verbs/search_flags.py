"""Defines the flags that change a search, and applies them."""

import msgspec

from aiayn.cli.flags import flag
from aiayn.spec.training import DecodingSpec

LENGTH_PENALTY_FORM = flag("len is fairseq's (default: the system's own)")
STOP = flag("stopping rule (default: the system's own)")


def changed_search(decoding: DecodingSpec, args: object) -> DecodingSpec:
    """Return a system's search with the values of the flags that have the names of its fields."""
    changes = {}
    for name in DecodingSpec.__struct_fields__:
        value = getattr(args, name, None)
        if value is not None:
            changes[name] = value
    return msgspec.structs.replace(decoding, **changes)
