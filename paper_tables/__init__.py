"""The paper's tables and ours beside them: `tables`, `figures`, `claims`, `render` and the wings over `published/`.

May import `analysis` and of `aiayn` all but its stages and the command (pyproject.toml): no torch, no fairseq.
"""
