"""Turns off Python's garbage collector while torch and fairseq are imported.

The collector would search all objects again and again, and modules contain no garbage.
"""

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def engine_import() -> Iterator[None]:
    """Turn off the garbage collector in the block, which imports torch and modules that need it.
    The import takes a sixth less time.

    At the end of the block, half a million objects exist that stay until the process ends. Later
    searches of the collector skip them. Otherwise searches would take a twentieth of the time of a
    training with a small model. If torch was imported before, the function does nothing.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # Moves all objects to a generation that the collector does not search.
        gc.freeze()
        gc.enable()
