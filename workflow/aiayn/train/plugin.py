"""Importing this module registers our classes with fairseq and patches fairseq."""

from aiayn.train import compat, criterion, fairseq_model, optimiser, task

__all__ = ["compat", "criterion", "fairseq_model", "optimiser", "task"]

compat.install()
compat.install_batching()
compat.install_loaders()
compat.install_ranks()
