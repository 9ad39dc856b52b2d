"""Reads the folders of runs (attempts, jobs, state), finds a run by its name, reads its log and
cancels it.

This package may import `aiayn.experiment` and the packages below it in docs/architecture.md. This
package does not import launchers: `aiayn.cli` passes the queues of jobs as an argument.
"""
