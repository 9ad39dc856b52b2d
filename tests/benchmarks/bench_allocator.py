"""Seconds an update of a small CPU training, with glibc's allocator as it is and as `aiayn.launch.submit` sets it.

    python -m tests.benchmarks.bench_allocator         about a minute on one core

Freed tensors above 128 kB go back to the system at once by default, their pages are faulted in again at each update.
"""

import os
import subprocess
import sys

from aiayn.launch.submit import ALLOCATOR_ENVIRONMENT
from tests.benchmarks.table import ratios_of, tell
from tests.benchmarks.table import seconds as in_words

STEPS = """
import time, torch
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Transformer(64, 4, 3, 3, 256, batch_first=True)
output = torch.nn.Linear(64, 5000)
source, target = torch.randn(64, 20, 64), torch.randint(5000, (64, 20))
for step in range(30):
    if step == 10:
        begin = time.perf_counter()
    torch.nn.functional.cross_entropy(output(model(source, source)).flatten(0, 1), target.flatten()).backward()
print((time.perf_counter() - begin) / 20)
"""


def main() -> None:
    """Alternate both settings five times and print the medians."""
    seconds: dict[str, list[float]] = {"default": [], "as launched": []}
    for _ in range(5):
        for name, settings in (("default", {}), ("as launched", ALLOCATOR_ENVIRONMENT)):
            environment = os.environ | {"OMP_NUM_THREADS": "1"} | settings
            command = [sys.executable, "-c", STEPS]
            printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            seconds[name].append(float(printed))
    default, ours = seconds.values()
    what = "an update of a small training, with the allocator as launched"
    tell(what, in_words(ours), f"glibc's own settings: {in_words(default)}", ratios_of(default, ours))


if __name__ == "__main__":
    main()
