"""Reads runs from their folders (attempts, jobs, state), finds a run by name, follows its log and
cancels it.

This package may import `aiayn.experiment` and the layers below it. It does not import launchers:
`cli` passes the queues of jobs as an argument.
"""
