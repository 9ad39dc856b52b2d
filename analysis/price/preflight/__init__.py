"""Checks what the trainings of a config need before they are started: mirrors, disk, Slurm,
versions of packages.

This package may import `aiayn.plan` and the packages below it in docs/architecture.md.
"""
