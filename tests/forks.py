"""Work in forks of this process, which spare its imports."""

import gc
import os
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Start work in a fork and return its process number. It exits with the number that `work`
    returns, else 0 or 1.
    """
    child = os.fork()
    if child == 0:
        # a store of torch's that the parent left, collected here, ends the process: its thread is
        # not here
        gc.freeze()
        status = 1
        try:
            returned = work()
            status = returned if isinstance(returned, int) else 0
        finally:
            os._exit(status)
    return child
