"""Predicts the hours, disk and memory of a training on a machine, and says whether the training
fits on the machine.

This package may import `aiayn.train` and the packages below it, but not torch.
"""
