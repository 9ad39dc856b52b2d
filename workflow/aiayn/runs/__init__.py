"""Reads runs from their folders: attempts, jobs and state; finds a run by name, follows its log, cancels it.

May import `aiayn.experiment` and below. It does not import the Slurm queue: `cli` passes that as an argument.
"""
