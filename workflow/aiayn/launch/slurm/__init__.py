"""Everything about Slurm: its launcher, its queue, and what its jobs need inside.

This package may import the modules of `aiayn.launch` outside of packages, and the layers below.
"""
