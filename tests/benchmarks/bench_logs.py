"""Time and memory of `aiayn tables --from-logs` on 1,000 logs of 200 kB.

    python -m tests.benchmarks.bench_logs [NUMBER OF LOGS] [KB EACH]

The logs are trainings of all rows of Table 3 in every form and format of fairseq, each of a seed of its own. Reading is
timed in this process, imports done; the whole command in a process of its own, its start and imports included.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "workflow"), str(CHECKOUT)]


from tests.benchmarks.table import tell  # noqa: E402 (after the path is set)
from tests.logs.factory import TrainingText, read_folder, write  # noqa: E402

NUM_LOGS, KILOBYTES = 1000, 200
KINDS = [(form, log_format) for form in ("print", "namespace", "config") for log_format in ("simple", "json")]
ROWS: list[dict[str, object]] = [
    {},
    {"encoder_layers": 2, "decoder_layers": 2},
    {"dropout": 0.2},
    {"label_smoothing": 0.0},
    {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    {"encoder_ffn_embed_dim": 4096, "decoder_ffn_embed_dim": 4096},
]


def make_logs(folder: Path, num_logs: int, num_bytes: int) -> float:
    """Write trainings, and return the megabytes written; a third of the lines is what a model prints."""
    layer = "          (k_proj): Linear(in_features=512, out_features=512, bias=True)\n" * 200
    num_written = 0
    for index in range(num_logs):
        form, log_format = KINDS[index % len(KINDS)]
        text = TrainingText(form=form, log_format=log_format, num_epochs=20)  # type: ignore[arg-type]
        text = text.changed(seed=index + 1, save_dir=f"checkpoints/{index}", **ROWS[index % len(ROWS)])
        bytes_per_line = len(text.epoch_lines(1)[0]) + 1
        left = num_bytes - len(text.text()) - len(layer)
        text = replace(text, lines_per_epoch=2 + max(0, left // (20 * bytes_per_line)))
        printed = text.text().replace(
            "  (encoder): TransformerEncoder(\n", f"  (encoder): TransformerEncoder(\n{layer}"
        )
        write(folder, {f"{index % 50}/{index}.log": printed})
        num_written += len(printed)
    return num_written / 1e6


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(what: Callable[[], object]) -> str:
    """Return how long something takes: on the clock, and in CPU seconds, which other programs disturb less."""
    begin, begin_cpu = time.perf_counter(), cpu_seconds()
    what()
    return f"{time.perf_counter() - begin:.2f} s ({cpu_seconds() - begin_cpu:.2f} s of CPU)"


def run_python(*arguments: str) -> None:
    """Run a Python with this checkout on its path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "workflow"), str(CHECKOUT)])}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Make the logs, time both, and print a line each."""
    num_logs = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_LOGS
    kilobytes = int(sys.argv[2]) if len(sys.argv) > 2 else KILOBYTES
    with tempfile.TemporaryDirectory() as temporary:
        folder, root = Path(temporary) / "logs", Path(temporary)
        megabytes = make_logs(folder, num_logs, kilobytes * 1000)
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        print(f"{num_logs:,} logs, {megabytes:.0f} MB, {cpus} CPUs, load {os.getloadavg()[0]:.1f}")
        tell(f"reading {num_logs:,} logs, {megabytes:.0f} MB", timed(lambda: read_folder(folder)), "")
        command = ["-m", "aiayn", "tables", "--from-logs", str(folder), "--output", str(root / "out")]
        seconds = timed(lambda: run_python(*command))
        tell("`aiayn tables --from-logs` of them, tables and curves", seconds, "")
        importing = timed(lambda: run_python("-c", "import paper_tables.render.from_logs"))
        print(f"of which starting and importing: {importing}")
        peaks = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(f"peak memory: {peaks[0]:.0f} MiB reading, {peaks[1]:.0f} MiB the largest process below")


if __name__ == "__main__":
    main()
