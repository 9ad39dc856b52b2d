"""Makes the paper's tables with our numbers next to the paper's: `frame`, `tables`, `render`,
`logs`, `published/`.

This package works without torch and fairseq, and does not import the stages and verbs of `aiayn`.
"""
