"""Predicts what a config takes (hours, money, disk, memory) before it is spent; describes a system.

May import `aiayn.train` and below, but no torch.
"""
