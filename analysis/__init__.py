"""From records and logs to verdicts: `scoring`, `logs` and `doctor`.

May import `aiayn` but its stages and the command (pyproject.toml, contracts `layers` and `core`): no torch, no fairseq.
"""
