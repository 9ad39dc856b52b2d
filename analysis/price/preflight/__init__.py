"""Checks what a config needs before anything is started: mirrors, disk, Slurm, versions.

May import `aiayn.plan` and below.
"""
