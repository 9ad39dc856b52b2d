"""Seconds to compile fairseq-fixed: as pip does it, and as the Makefile does it (two compilers, -O1, no debug symbols).

python tests/benchmarks/bench_fairseq_build.py      about six minutes on two cores
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Build the pinned version both ways, in one run, and print both times."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    requirement = re.findall(r"^fairseq-fixed==\S+", constraints, flags=re.MULTILINE)[0]
    with tempfile.TemporaryDirectory() as folder:
        config_path = Path(folder) / "build.cfg"
        config_path.write_text("[build_ext]\nparallel = 2\n", encoding="utf-8")
        flags = {"CFLAGS": "-g0 -O1", "CXXFLAGS": "-g0 -O1", "DIST_EXTRA_CONFIG": str(config_path)}
        for name, settings in (("as pip does it", {}), ("as the Makefile does it", flags)):
            environment = {key: value for key, value in os.environ.items() if key != "CUDA_HOME"} | settings
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
                       "--no-cache-dir", "--wheel-dir", f"{folder}/{name}", requirement]  # fmt: skip
            begin = time.perf_counter()
            subprocess.run(command, env=environment, check=True)
            print(f"{requirement}, {name}: {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
