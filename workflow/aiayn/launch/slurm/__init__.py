"""Everything about Slurm: the launcher that submits jobs to Slurm, its queue, and the functions
that run inside a Slurm job.

This package may import the modules directly in `aiayn.launch`, and the packages below
`aiayn.launch` in docs/architecture.md.
"""
