"""Lets a process import torch and fairseq without searches for garbage.

The search looks through all objects, and finds none to free in modules.
"""

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def engine_import() -> Iterator[None]:
    """Import torch and what needs it in the block: a sixth faster.

    Later searches leave out what exists at the block's end, half a million objects that stay until
    the process ends. With a small model, they would take a twentieth of a training. If torch was
    imported before, the block changes nothing.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
