"""Drives a training to its end: the driver, the launchers, the job, and `preflight`, the checks before it.

May import `aiayn.plan` and below, and submitit, which no other package imports.
"""
