"""What fairseq's `--user-dir` names: registers ours with fairseq, in its own commands as in
ours.
"""

import aiayn.train.plugin  # noqa: F401
