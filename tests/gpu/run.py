"""Measures this machine's GPU with the kit that this file lies in: one command, under 9 minutes, no
network.

    python3.12 gpu-kit/run.py                   results.md beside this file
    python3.12 gpu-kit/run.py --device cpu      the same, smaller, on a CPU: whether the kit works; a busy one
                                                takes longer: --seconds 2000
    python3.12 gpu-kit/run.py --parts updates layers    a second run: seconds of base, lstm, fconv and layers
    python3.12 gpu-kit/run.py --parts whole             base's whole training on Multi30k, to its BLEU
    python3.12 gpu-kit/run.py --gpus 8 --parts node     eight GPUs of this machine: their sums, TERM and resume, one
                                                rank against all

It needs Python 3.12 with torch 2.11 or newer, numpy, sacrebleu and sentencepiece, and brings the
rest. Nothing is installed: wheels are unpacked into `site/` beside this file. Each part is a
process of its own. What fails says why, and the next part goes on. Python's own library is enough
for this file.
"""

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import time
import zipfile
from pathlib import Path

KIT = Path(__file__).resolve().parent
TOTAL_SECONDS = 535.0
# They follow each other as here; when the time is over, the last parts are not run.
PARTS = (
    "machine", "parity", "synchronisations", "resume", "precision", "step", "decode", "memory", "pipeline", "node",
)  # fmt: skip
# For a run of their own: --parts updates layers whole.
LATER_PARTS = ("updates", "layers", "whole")
NEEDED = ("torch", "numpy", "sacrebleu", "sentencepiece")
HEADER = ("| part | what | value | peer or bound | ratio | ok |", "|---|---|---|---|---|---|")


def main() -> int:
    """Run all parts, and return the exit code: 0 if each found what it should."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--seconds", type=float, default=TOTAL_SECONDS, help="end after this many seconds"
    )
    parser.add_argument(
        "--out", type=Path, default=KIT, help="folder of the results (default: beside this file)"
    )
    parser.add_argument(
        "--gpus", type=int, default=1, help="GPUs (processes on a CPU) of the part node"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=(*PARTS, *LATER_PARTS), default=PARTS, metavar="PART"
    )
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"{sys.executable}: no {', '.join(missing)}; the kit needs {', '.join(NEEDED)}",
            file=sys.stderr,
        )
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    unpack(KIT / "wheels", KIT / "site")
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    commit = (KIT / "source" / "COMMIT").read_text(encoding="utf-8").strip()
    lines = [
        f"GPU kit, {made}, {platform.node()}, {arguments.device}, commit {commit}",
        "",
        *HEADER,
    ]
    is_well = True
    for name in arguments.parts:
        rows, problem = run_part(
            name,
            deadline - time.monotonic(),
            arguments.device,
            arguments.out,
            commit,
            arguments.gpus,
        )
        lines += rows + ([f"| {name} | **{problem}** | | | | **no** |"] if problem else [])
        is_well = is_well and not problem
        (arguments.out / "results.md").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
        print(f"{name}: {problem or 'ok'}", flush=True)
    print("\n".join(lines))
    return 0 if is_well else 1


def unpack(wheels: Path, site: Path) -> None:
    """Unpack wheels, which are zip archives."""
    names = sorted(wheel.name for wheel in wheels.glob("*.whl"))
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    kinds = (f"-{tag}-", "-abi3-", "-py3-", "-py2.py3-")
    others = [name for name in names if not any(kind in name for kind in kinds)]
    if others:
        raise SystemExit(
            f"{others[0]}: not for this Python ({tag}); take the Python that the kit was made for"
        )
    for name in names:
        with zipfile.ZipFile(wheels / name) as wheel:
            wheel.extractall(site)


def run_part(
    name: str, seconds: float, device: str, out: Path, commit: str, num_gpus: int = 1
) -> tuple[list[str], str]:
    """Run a part, and return its rows of the table, and what went wrong."""
    if seconds <= 1:
        return [], "not run: no time was left"
    source = KIT / "source"
    paths = [
        KIT / "site",
        source / "workflow",
        source,
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "AIAYN_COMMIT": commit.replace("-dirty", "+dirty"),
        # A process that has asked CUDA itself for its GPUs cannot fork ranks that use them.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }
    log_path = out / "parts" / f"{name}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.gpu.parts", name, "--device", device]
    command += ["--data", str(KIT / "data"), "--out", str(log_path.parent)]
    command += ["--gpus", str(num_gpus)]
    problem = ""
    with log_path.open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=log_path.parent,
                timeout=seconds,
                check=False,
            )
            problem = f"exit code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"ended after {seconds:.0f} s"
    printed = [
        line
        for line in log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    rows = [line for line in printed if line.startswith(f"| {name} |")]
    last = printed[-1].replace("|", "/") if printed else ""
    return rows, f"{problem}: {last}" if problem else ""


if __name__ == "__main__":
    sys.exit(main())
