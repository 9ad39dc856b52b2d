"""Turns off Python's garbage collector while torch and fairseq are imported.

During these imports the garbage collector would search all objects again and again, although
modules do not contain garbage.
"""

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def engine_import() -> Iterator[None]:
    """Turn off the garbage collector in a with block that imports torch and modules that need
    torch. Without the garbage collector the imports take a sixth less time.

    The imports make half a million objects that stay until the process ends. At the end of the with
    block, the garbage collector is told to skip these objects. If the garbage collector searched
    these objects, it would take a twentieth of the time of a training with a small model. If torch
    was imported before the with block, the function does nothing.
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
