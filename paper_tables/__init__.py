"""The paper's tables with our numbers next to the printed numbers: `frame`, `tables`, `render`,
`logs`, `published/`.

This package works without torch and fairseq, and imports no stage or verb of `aiayn`.
"""
