"""Registers our classes with fairseq and patches fairseq, when it is imported."""

from aiayn.train import adam, compat, criterion, equation_3, fairseq_model, task

__all__ = ["adam", "compat", "criterion", "equation_3", "fairseq_model", "task"]

compat.install()
compat.install_batching()
compat.install_scoring()
compat.install_refusals()
