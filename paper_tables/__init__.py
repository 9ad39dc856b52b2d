"""The paper's tables and ours beside them: `tables` and `render`, and the wings' folders, over `published/`.

May import `analysis` and of `aiayn` all but its stages and the command (pyproject.toml): no torch, no fairseq.
"""
