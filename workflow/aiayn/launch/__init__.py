"""Drives a training to its end: the driver, the launchers and the job.

This package may import `aiayn.plan`, the packages below it, and submitit, which no other package
imports.
"""
