"""The folder for fairseq's `--user-dir`. Importing it registers this project's classes with
fairseq, both in fairseq's commands and in ours.
"""

import aiayn.train.plugin  # noqa: F401
