"""Makes the Python environment `.venv` of this checkout, or installs more packages into it. `make`
calls this script, which needs only Python's standard library.

The hash of each package file is in `requirements/*.txt`. If torch is installed from an index of its
own, the hash of torch is not checked, because an index of torch has different files than pip's own
index.

    python3.11 workflow/install.py core            what needs no training: tables, explanations, plans; the extra figures
    python3.11 workflow/install.py demo            torch, fairseq, and the extras workflow, train and figures
    python3.11 workflow/install.py all             the extra dev too

fairseq is installed after torch, because fairseq's setup.py imports torch. fairseq is installed
without its compiled extensions, which its setup.py leaves out if the environment variable
READTHEDOCS is set. pip's cache is not used for fairseq: the cache may contain a wheel with
extensions, and would keep our wheel without extensions.
"""  # noqa: E501

import argparse
import contextlib
import glob
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
# Exists while a command changes `.venv`. If the command was killed or the disk was full, the file
# stays, and the next call makes `.venv` again.
UNFINISHED = VENV / "unfinished"
LOG = VENV / "install.log"
# The index that the user chose for torch. The Makefile reads this file, too.
TORCH_INDEX = VENV / "torch-index"

CPU_INDEX_URL = "https://download.pytorch.org/whl/cpu"
PROBE_SECONDS = 5
# Each extra is a file of `requirements`.
EXTRAS_BY_PART = {
    "core": ["figures"],
    "demo": ["workflow", "train", "figures"],
    "all": ["workflow", "train", "figures", "dev"],
}
NEEDED_GB = "2 GB with torch's CPU build, 8 GB with CUDA's"  # downloads included

# Without a terminal: the time between two lines on the progress of pip.
SILENT_SECONDS = 30.0


class _InstallError(Exception):
    """A step failed. The message says why the installation failed and what to do."""


def main() -> int:
    """Install the packages, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=EXTRAS_BY_PART)
    parser.add_argument("--torch-index-url", default="", help="where pip finds torch")
    arguments = parser.parse_args()
    begin = time.monotonic()
    try:
        is_new = make_environment()
        # First the packages that build other packages. pip would otherwise download them without
        # hashes.
        pip_hashed(["build"])
        pip_hashed(EXTRAS_BY_PART[arguments.part])
        # `make install` installs the part demo first, so torch is there unless `.venv` is new.
        if arguments.part == "demo" or (arguments.part == "all" and is_new):
            install_torch(arguments.torch_index_url)
            install_fairseq()
        pip(["--no-build-isolation", "--no-deps", "--editable", "."])
        # Python normally writes the byte code of a module when the module is first imported. If
        # this is switched off, every command would compile all modules again.
        if sys.dont_write_bytecode:
            compile_packages()
    except _InstallError as error:
        print(f"make: {error}; then run make again", file=sys.stderr)
        return 1
    print(f"installed in {time.monotonic() - begin:.0f} s: {VENV}")
    return 0


def make_environment() -> bool:
    """Make the environment `.venv` and return True. If the Python that runs this script is already
    the Python of `.venv`, and the last installation into `.venv` was completed, keep `.venv` and
    return False.
    """
    is_own = Path(sys.executable).absolute() == PYTHON
    is_new = not is_own or UNFINISHED.exists()
    if is_new:
        print(f"making {VENV} with Python {platform.python_version()}", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(VENV)])
    return is_new


def install_torch(given_url: str) -> None:
    """Install torch from the package index `given_url`. If `given_url` is '' and this machine does
    not have a GPU, install the CPU build from its index, if this index can be reached. In all other
    cases, install the build in pip's own index.
    """
    # Two indexes may have different builds of one version. pip would keep the installed build.
    is_other = given_url != "" and not (
        TORCH_INDEX.exists() and TORCH_INDEX.read_text() == given_url
    )
    settings = pip_settings()
    url = given_url
    reason = "as TORCH_INDEX_URL says"
    if not given_url:
        url, reason = own_torch_index(settings)
    other_url = CPU_INDEX_URL.replace("cpu", "cu126") if url == CPU_INDEX_URL else CPU_INDEX_URL
    print(
        f"torch from {url or 'the package index'}, {reason}; for another build: make install"
        f" TORCH_INDEX_URL={other_url}",
        flush=True,
    )
    # torch alone comes from its index, which need not have the packages that torch requires. The
    # second command installs them.
    if url:
        again = ["--force-reinstall"] if is_other else []
        pip([*again, "--no-deps", "--index-url", url, "torch"])
        pip(["--extra-index-url", url, "torch"])
    # An index of the user's own, such as `global.index-url='https://...'`, may have other builds,
    # so the hashes of `requirements` do not apply.
    elif re.search(r"\.((extra-)?index-url|find-links|no-index)=", settings):
        pip(["torch"])
    else:
        pip_hashed(["torch"])
    TORCH_INDEX.write_text(given_url)


def pip_settings() -> str:
    """Return pip's settings in the environment `.venv`, one setting a line."""
    command = [PYTHON, "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def own_torch_index(settings: str) -> tuple[str, str]:
    """Return the URL of the index for torch ('' for pip's own index), and the reason. `settings`
    are the settings of pip.
    """
    # The first condition that holds decides. pip's own index is then right, or the user chose it.
    for holds, reason in (
        (platform.system() != "Linux", f"as this is {platform.system()}"),
        (shutil.which("nvidia-smi") or glob.glob("/dev/nvidia[0-9]*"), "as there is an NVIDIA GPU"),
        (shutil.which("sbatch"), "as Slurm's nodes may have GPUs"),
        (re.search(r"\.(index-url|no-index)=", settings), "as pip's configuration names one"),
    ):
        if holds:
            return "", reason
    try:
        with urllib.request.urlopen(f"{CPU_INDEX_URL}/torch/", timeout=PROBE_SECONDS) as answer:
            page = answer.read().decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        return "", f"as {CPU_INDEX_URL} cannot be reached ({error})"
    # A link of the page: `torch-2.11.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl`.
    tag = f"cp3{sys.version_info.minor}"
    if not re.search(
        rf"torch-{pinned_version('torch')}(\+|%2B)cpu-{tag}-{tag}-\w+_{platform.machine()}\.whl",
        page,
    ):
        return "", f"because {CPU_INDEX_URL} has no build for this machine"
    return CPU_INDEX_URL, "because this machine has no NVIDIA GPU"


def install_fairseq() -> None:
    """Install fairseq without its compiled extensions. The packages that fairseq requires are in
    the extra `train`.
    """
    arguments = ["--no-cache-dir", "--no-binary", "fairseq-fixed"]
    pip_hashed(["fairseq"], arguments, {"READTHEDOCS": "1"})


def compile_packages() -> None:
    """Compile all packages to byte code, if Python is told not to write byte code itself
    (PYTHONDONTWRITEBYTECODE, as in many images).

    Without byte code each command would compile torch again, which takes 2 seconds. Files that
    Python 3 cannot compile are skipped.
    """
    code = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=2, workers=0)"
    run([str(PYTHON), "-c", code, str(VENV / "lib")])


def pinned_version(name: str) -> str:
    """Return the version that constraints.txt allows for a package."""
    constraints = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8")
    return re.findall(rf"^{name}==(\S+)", constraints, flags=re.MULTILINE)[0]


def pip_hashed(
    names: list[str], arguments: Sequence[str] = (), variables: dict[str, str] | None = None
) -> None:
    """Install the packages that the files `requirements/<name>.txt` list, with a check of each
    hash, and no other packages.

    Source packages are built with the packages in requirements/build.txt, because pip itself would
    download packages for the build without checking a hash.
    """
    # `--no-deps`: the files list every package. `--require-hashes` refuses a package without a
    # hash.
    files = [argument for name in names for argument in ("-r", f"requirements/{name}.txt")]
    flags = ["--no-build-isolation", "--no-deps", "--require-hashes"]
    pip([*flags, *arguments, *files], variables)


def pip(arguments: list[str], variables: dict[str, str] | None = None) -> None:
    """Run `pip install` without making byte code, because most modules are never imported. Byte
    code is made when a module is first imported, or by `compile_packages`.
    """
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--progress-bar",
        "off",
    ]
    run([*command, "--no-compile", "--constraint", "constraints.txt", *arguments], variables)


def run(command: list[str], variables: dict[str, str] | None = None) -> None:
    """Run a command of the installation.

    Raises:
        _InstallError: if the command fails.
    """
    # The first command makes the folder itself.
    if VENV.exists():
        UNFINISHED.touch()
    # pip downloads into TMPDIR, so the size of the files there shows how far a download is.
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder, **(variables or {})}
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: list[str] = []
        # A thread, because reading pip's output below blocks while pip downloads.
        shower = threading.Thread(target=show_progress, args=(process, lines, Path(folder)))
        shower.start()
        for line in process.stdout or ():
            lines.append(line)
        return_code = process.wait()
        shower.join()
    text = "".join(lines)
    if return_code != 0:
        # pip may print thousands of lines. The reason is at the end.
        sys.stderr.write(text[-3000:])
        # `ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. ...`, and the
        # package in the next line.
        if other := re.search(r"DO NOT MATCH THE HASHES .*?\n\s*(\S+)", text, flags=re.DOTALL):
            raise _InstallError(
                f"what was downloaded as {other[1]} has another hash than in requirements/*.txt,"
                " so nothing of it was installed: the download broke off, or the package index, a"
                " proxy or a folder of wheels has a file that is not the published one; name"
                " another index (PIP_INDEX_URL=...) if it happens again"
            )
        raise _InstallError(
            f"{shlex.join(command)} failed, see above; for the network set https_proxy, or name a"
            f" mirror (PIP_INDEX_URL=...); for space free {NEEDED_GB}, or set TMPDIR to a larger"
            " disk"
        )
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{shlex.join(command)}\n{text}\n")
    UNFINISHED.unlink(missing_ok=True)


def show_progress(process: "subprocess.Popen[str]", lines: list[str], folder: Path) -> None:
    """Print what pip does and the progress of its downloads, until pip has ended. On a terminal one
    line is rewritten again and again. If the output is not a terminal, a line is printed each half
    minute.

    `lines` are the lines that pip has printed so far. `folder` is the folder into which pip
    downloads.
    """
    is_terminal = sys.stdout.isatty()
    begin = shown = time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = time.monotonic()
        if now >= shown + (1.0 if is_terminal else SILENT_SECONDS):
            shown = now
            # pip may remove a file while its size is read.
            with contextlib.suppress(OSError):
                text = describe("".join(lines[-1:]), folder, now - begin)
                # `\r` and `ESC [K` go to the beginning of the line and erase it.
                print(f"\r\x1b[K{text}" if is_terminal else f"{text}\n", end="", flush=True)
    print("\r\x1b[K" if is_terminal else "", end="", flush=True)


def describe(line: str, folder: Path, seconds: float) -> str:
    """Return the newest line that pip printed. During a download, add how many MB have arrived and
    how long the rest will take.
    """
    text = f"  {line.strip()[:50]} ({seconds:.0f} s)"
    # pip keeps the finished downloads next to the file that it is writing, which is the newest.
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    if not files:
        return text
    arrived = max(files, key=lambda file: file.st_mtime_ns).st_size / 1e6
    arrived_in_all = sum(file.st_size for file in files) / 1e6
    # `Downloading torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl (530.7 MB)`. The speed is the
    # mean over all files so far.
    if (size := re.search(r"\(([\d.]+) MB\)", line)) and arrived_in_all > 1:
        seconds_left = (float(size[1]) - arrived) * seconds / arrived_in_all
        text += f": {arrived:.0f} of {size[1]} MB, {max(0, seconds_left):.0f} s left"
    return text


if __name__ == "__main__":
    sys.exit(main())
