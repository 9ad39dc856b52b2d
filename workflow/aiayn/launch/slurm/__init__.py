"""Everything about Slurm: its launcher, its queue, and what its jobs need inside.

May import `aiayn.launch`'s loose modules and below.
"""
