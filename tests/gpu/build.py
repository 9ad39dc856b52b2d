"""Makes the GPU kit: one folder of under 64 MB for a machine with a GPU, torch, and no network.

    make gpu-kit                                    build/gpu-kit, for Python 3.12
    python -m tests.gpu.build FOLDER --python 3.11  for another

In it: wheels of what the project needs except torch, numpy, sacrebleu and sentencepiece; the
project itself; the demo's data-bin, and Multi30k's where AIAYN_MIRROR names a mirror that has it;
and `run.py`, whose docstring says the rest.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engine.pipeline_verbs import data_commands

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / "build" / "gpu-kit"
MAX_MEGABYTES = 64

# What training, decoding and scoring import, less what the machine has. Tables (pandas, scipy) are
# made elsewhere.
PACKAGES = (
    "antlr4-python3-runtime", "bitarray", "hydra-core", "msgspec", "omegaconf", "packaging", "pyyaml",
    "requests", "certifi", "charset-normalizer", "idna", "urllib3", "sacremoses", "click", "joblib", "regex",
    "subword-nmt", "submitit", "cloudpickle", "typing-extensions", "tabulate", "tqdm",
)  # fmt: skip
BUILT_HERE = (
    "antlr4-python3-runtime",
    "fairseq-fixed",
)  # there is no common wheel; of the other one with extensions
SOURCES = (
    "workflow/aiayn",
    "workflow/aiayn_fairseq",
    "workflow/config",
    "analysis",
    "tests/gpu",
    "tests/engine",
)
FILES = (
    "tests/forks.py",
    "tests/records_factory.py",
    "tests/records_factory.yaml",
    "tests/sheets.py",
)
SYSTEM = """\
name: gpu_kit
inherits: base
description: base at the scale of the {scale}, on whatever device there is

training:
  device: auto
"""


def main() -> int:
    """Make the kit, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument(
        "--python", default="3.12", help="the version of Python that the machine has"
    )
    arguments = parser.parse_args()
    build(arguments.folder, arguments.python)
    megabytes = (
        sum(path.stat().st_size for path in arguments.folder.rglob("*") if path.is_file()) / 1e6
    )
    print(
        f"{arguments.folder}: {megabytes:.1f} MB; copy it, then:"
        f" python{arguments.python} gpu-kit/run.py"
    )
    if megabytes >= MAX_MEGABYTES:
        print(
            f"{arguments.folder}: {megabytes:.1f} MB, expected under {MAX_MEGABYTES}; see its"
            " wheels",
            file=sys.stderr,
        )
        return 1
    return 0


def build(folder: Path, python_version: str) -> None:
    """Make the kit in a folder, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    make_wheels(folder / "wheels", python_version)
    copy_sources(folder / "source")
    make_corpus("demo_en_de", folder / "data")
    mirror = os.environ.get("AIAYN_MIRROR")
    if mirror:
        make_corpus("multi30k_en_de", folder / "data")
    shutil.copy2(CHECKOUT / "tests/gpu/run.py", folder / "run.py")


def make_wheels(folder: Path, python_version: str) -> None:
    """Download wheels for a Python on Linux x86-64. Build those that there are none of, without a
    compiler.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    constraints = ["--no-deps", "--constraint", str(CHECKOUT / "constraints.txt")]
    platforms = [f"--platform=manylinux{tag}_x86_64" for tag in ("2014", "_2_24", "_2_27", "_2_28")]
    of_machine = [
        "--only-binary",
        ":all:",
        "--python-version",
        python_version,
        "--implementation",
        "cp",
        *platforms,
    ]
    downloaded = [name for name in PACKAGES if name not in BUILT_HERE]
    _run([*pip, "download", "--dest", str(folder), *constraints, *of_machine, *downloaded])
    build_flags = ["--no-build-isolation", "--no-cache-dir", "--no-binary", ",".join(BUILT_HERE)]
    pinned = re.findall(
        r"^fairseq-fixed==\S+", (CHECKOUT / "constraints.txt").read_text(), flags=re.MULTILINE
    )
    # READTHEDOCS: without fairseq's extensions, as workflow/install.py installs it.
    named = [*pinned, *(name for name in BUILT_HERE if name in PACKAGES)]
    _run(
        [*pip, "wheel", "--wheel-dir", str(folder), *constraints, *build_flags, *named],
        READTHEDOCS="1",
    )
    compiled = [
        wheel.name
        for wheel in folder.glob("fairseq*")
        if not wheel.name.endswith("-py3-none-any.whl")
    ]
    if compiled:
        raise SystemExit(
            f"{folder / compiled[0]}: compiled for this machine; expected a wheel for any"
        )


def _run(command: list[str], **variables: str) -> None:
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-2000:]}")


def copy_sources(folder: Path) -> None:
    """Copy what the parts run, and write the systems that they train."""
    ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
    for name in SOURCES:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=ignored)
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, folder / name)
    for scale in ("demo", "multi30k"):
        path = folder / "workflow/config/systems" / scale / "gpu_kit.yaml"
        path.write_text(SYSTEM.format(scale=scale), encoding="utf-8")
    commit = subprocess.run(
        ["git", "describe", "--always", "--exclude=*", "--dirty", "--abbrev=40"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    (folder / "COMMIT").write_text(f"{commit or 'unknown'}\n", encoding="utf-8")


def make_corpus(corpus: str, folder: Path) -> None:
    """Run the stages from text to data-bin, and keep the data-bin and what scoring reads."""
    with tempfile.TemporaryDirectory() as work:

        def record(verb: str) -> Path:
            return Path(work) / corpus / verb / "record.json"

        for command in data_commands(corpus, record):
            _run([sys.executable, "-m", "aiayn", *command])
        for stage in ("fetch", "binarize"):
            kept = folder / corpus / stage
            shutil.copytree(record(stage).parent, kept, ignore=shutil.ignore_patterns("train.??"))


if __name__ == "__main__":
    sys.exit(main())
