"""Seconds an update of a small CPU training, with glibc's allocator as it is and as `aiayn.launch.submit` sets it.

    python tests/benchmarks/bench_allocator.py          about a minute on one core

Freed tensors above 128 kB go back to the system at once by default, their pages are faulted in again at each update.
"""

import os
import subprocess
import sys

from aiayn.launch.submit import ALLOCATOR_ENVIRONMENT

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
    for name, values in seconds.items():
        print(f"allocator {name}: median {sorted(values)[2] * 1000:.0f} ms an update, of {len(values)} processes")


if __name__ == "__main__":
    main()
