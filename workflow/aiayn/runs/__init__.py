"""Reads runs from their folders: attempts, jobs and state; finds a run by name, follows its log,
cancels it.

May import `aiayn.experiment` and below. It knows no launcher: `cli` passes the queues of jobs as an
argument.
"""
