"""The paper's tables and ours next to them: `frame`, `tables`, `render` and `logs`, over
`published/`.

Needs neither torch nor fairseq.
Imports no stage and no verb of `aiayn`.
"""
