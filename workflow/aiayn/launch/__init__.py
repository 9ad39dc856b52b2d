"""Runs a training as jobs. The driver submits jobs and waits for them, a launcher starts a job on
one kind of machine, and the job trains.

This package may import `aiayn.plan`, the packages below it, and submitit, which no other package
imports.
"""
