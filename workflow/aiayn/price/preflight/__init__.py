"""Checks what a config needs before anything is started: mirrors, disk, GPUs, Slurm, versions.

May import `aiayn.plan` and below.
"""
