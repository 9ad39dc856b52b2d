"""The paper's tables with ours next to them: `frame`, `tables`, `render`, `logs`, `published/`.

This package works without torch and fairseq, and imports no stage or verb of `aiayn`.
"""
