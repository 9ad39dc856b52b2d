"""All that we register with fairseq, and our patches of it: who imports this module has them."""

from aiayn.engine import compat, equation_3, task

__all__ = ["compat", "equation_3", "task"]

compat.install()
compat.install_batching()
