"""Measures this machine's GPU with the kit that this file lies in: one command, under 9 minutes, no network.

    python3.12 gpu-kit/run.py                   results.json and results.md beside this file
    python3.12 gpu-kit/run.py --device cpu      the same, smaller, on a CPU: whether the kit works; a busy one
                                                takes longer: --times 4

It needs Python 3.12 with torch 2.11 or newer, numpy, sacrebleu and sentencepiece, and brings the rest. Nothing is
installed: wheels are unpacked into `site/` beside this file. Each part is a process of its own with a time of its own;
what fails, or takes too long, says why, and the next part goes on. Python's own library is enough for this file.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parent
TOTAL_SECONDS = 535.0
# Each part with the most seconds that it gets; they follow each other as here. Together they are under 9 minutes.
BUDGET_SECONDS = {
    "machine": 25, "parity": 50, "synchronisations": 25, "resume": 60, "precision": 75, "step": 130, "decode": 45,
    "memory": 30, "nvml": 15, "pipeline": 80,
}  # fmt: skip
NEEDED = ("torch", "numpy", "sacrebleu", "sentencepiece")
LAST_LINES = 4


def main() -> int:
    """Run all parts, and return the exit code: 0 if each found what it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--times", type=float, default=1.0, help="give each part so many times its seconds")
    parser.add_argument("--out", type=Path, default=KIT, help="folder of the results (default: beside this file)")
    parser.add_argument("--parts", nargs="+", choices=BUDGET_SECONDS, default=list(BUDGET_SECONDS), metavar="PART")
    arguments = parser.parse_args()
    begin = time.monotonic()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"{sys.executable}: no {', '.join(missing)}; the kit needs {', '.join(NEEDED)} installed", file=sys.stderr
        )
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    unpack(KIT / "wheels", KIT / "site")
    parts: list[dict[str, Any]] = []
    for name in arguments.parts:
        left = arguments.times * TOTAL_SECONDS - (time.monotonic() - begin)
        parts.append(run_part(name, min(arguments.times * BUDGET_SECONDS[name], left), arguments.device, arguments.out))
        results = {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": platform.node(),
            "commit": (KIT / "source" / "COMMIT").read_text(encoding="utf-8").strip(),
            "device": arguments.device,
            "seconds": round(time.monotonic() - begin, 1),
            "parts": parts,
        }
        write(arguments.out / "results.json", json.dumps(results, indent=1) + "\n")
        write(arguments.out / "results.md", as_table(results))
        print(f"{name}: {parts[-1]['status']}, {parts[-1]['seconds']:.0f} s {parts[-1]['reason']}", flush=True)
    print(as_table(results))
    return 0 if all(part["status"] in ("ok", "not measured") for part in parts) else 1


def unpack(wheels: Path, site: Path) -> None:
    """Unpack wheels, each of which is a zip archive, unless they are unpacked already."""
    names = sorted(wheel.name for wheel in wheels.glob("*.whl"))
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    others = [name for name in names if not any(one in name for one in (f"-{tag}-", "-abi3-", "-py3-", "-py2.py3-"))]
    if others:
        raise SystemExit(f"{others[0]}: not for this Python ({tag}); take the Python that the kit was made for")
    stamp = site / "unpacked"
    if stamp.exists() and stamp.read_text(encoding="utf-8").split("\n") == names:
        return
    for name in names:
        with zipfile.ZipFile(wheels / name) as wheel:
            wheel.extractall(site)
    write(stamp, "\n".join(names))


def write(path: Path, text: str) -> None:
    """Write a file beside, then rename it: whole at any moment."""
    beside = path.with_suffix(".partial")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def run_part(name: str, seconds: float, device: str, out: Path) -> dict[str, Any]:
    """Run a part in a process group of its own, and return its rows and how it ended."""
    if seconds <= 1:
        return {"part": name, "status": "not run", "seconds": 0.0, "reason": "no time was left", "rows": []}
    rows_path, log_path = out / "parts" / f"{name}.jsonl", out / "parts" / f"{name}.log"
    rows_path.parent.mkdir(parents=True, exist_ok=True)
    rows_path.unlink(missing_ok=True)
    source = KIT / "source"
    paths = [KIT / "site", source / "workflow", source, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "AIAYN_COMMIT": (source / "COMMIT").read_text(encoding="utf-8").strip().replace("-dirty", "+dirty"),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }
    command = [sys.executable, "-m", "tests.gpu.parts", name, "--device", device]
    command += ["--data", str(KIT / "data"), "--out", str(out / "parts"), "--rows", str(rows_path)]
    begin = time.monotonic()
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=out / "parts"
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a part has started ends with it
            process.wait()
    rows = [json.loads(line) for line in read_lines(rows_path)]
    return {
        "part": name,
        "seconds": round(time.monotonic() - begin, 1),
        "rows": rows,
        **judge(code, rows, seconds, log_path),
    }


def read_lines(path: Path) -> list[str]:
    """Return the whole lines of a file; a part that was ended may have left half of one."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.exists() else []


def judge(code: int | None, rows: list[dict[str, Any]], seconds: float, log_path: Path) -> dict[str, str]:
    """Return a part's status and, unless it is ok, the reason."""
    if code is None:
        return {"status": "too slow", "reason": f"ended after {seconds:.0f} s; its rows until then are kept"}
    if code != 0:
        last = [line for line in read_lines(log_path) if line.strip()][-LAST_LINES:]
        return {"status": "failed", "reason": f"exit code {code}: {' / '.join(last)}"}
    wrong = [row["what"] for row in rows if row["ok"] is False]
    if wrong:
        return {"status": "wrong", "reason": f"beyond the bound: {'; '.join(wrong)}"}
    if rows and all(row["value"] is None for row in rows):
        return {"status": "not measured", "reason": rows[0]["note"]}
    return {"status": "ok", "reason": ""}


def as_table(results: dict[str, Any]) -> str:
    """Return all rows as one Markdown table, and below it what went wrong."""
    lines = [
        f"GPU kit, {results['created']}, {results['device']}, commit {results['commit'][:12]}, {results['seconds']} s",
        "", "| part | what | value | peer or bound | ratio | ok |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for part in results["parts"]:
        if part["status"] not in ("ok", "not measured"):
            lines.append(f"| {part['part']} | **{part['status']}** | | | | {part['reason'].replace('|', '/')} |")
        for row in part["rows"]:
            value = f"not measured: {row['note']}" if row["value"] is None else f"{row['value']} {row['unit']}"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            is_ok = {None: "", True: "yes", False: "**no**"}[row["ok"]]
            lines.append(f"| {part['part']} | {row['what']} | {value} | {row['bound']} | {ratio} | {is_ok} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
