"""Drives a training to its end: the driver, the launchers and the job.

May import `aiayn.plan` and below, and submitit, which no other package imports.
"""
