"""Predicts the hours, disk and memory of a training on a machine, and says whether it fits there.

May import `aiayn.train` and below, but no torch.
"""
