"""A real container around a training: an image made by mmdebstrap and pip, run by charliecloud.

The packages are those of `workflow/container/attention.def`: debian.txt, and what
`workflow/install.py demo` installs. It needs root and minutes, and AIAYN_IMAGE may name the folder
of an image that was made before.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.slurm.fault_scene import CHECKOUT, EXIT_DONE, NUM_RANKS, Scene

IMAGE_VARIABLE = "AIAYN_IMAGE"
PACKED = [
    "pyproject.toml",
    "constraints.txt",
    "requirements",
    "README.md",
    "LICENSE",
    "workflow",
    "analysis",
    "paper_tables",
]
HOME = "opt/attention"  # in the image, as in attention.def
COMMANDS, TOOLS = ("mmdebstrap", "ch-run", "ip"), ("mmdebstrap", "charliecloud", "iproute2")
# What a rank's Python sees: its own torch, none of this checkout, and no network.
PYTHON = """#!/bin/sh
unset TMPDIR  # ch-run would show its folder as /tmp, where the run is not
inside() {{ USER=root ip netns exec {netns} ch-run {image} -- /{home}/.venv/bin/python "$@"; }}
inside -c '
import socket, torch
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print(torch.__file__, error.strerror)' >> {used}
USER=root exec ip netns exec {netns} ch-run {image} -- /{home}/.venv/bin/python "$@"
"""


def image(scene: Scene) -> None:
    """Each rank runs in the image, without network and without Python packages of this machine."""
    if any(shutil.which(name) is None for name in COMMANDS):
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *TOOLS], check=True)
    image_folder = Path(os.environ.get(IMAGE_VARIABLE) or _make_image())
    netns, used_path = f"aiayn-{os.getpid()}", scene.folder / "used"
    scene.folder.mkdir(parents=True)
    wrapper_path = scene.folder / "python"
    wrapper_path.write_text(
        PYTHON.format(netns=netns, image=image_folder, home=HOME, used=shlex.quote(str(used_path))),
        encoding="utf-8",
    )
    wrapper_path.chmod(0o755)
    scene.ask(python=str(wrapper_path))
    scene.seconds_per_update = 0.0  # the job that waits is a test's, which the image does not have
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        subprocess.run(["ip", "netns", "exec", netns, "ip", "link", "set", "lo", "up"], check=True)
        driver = scene.start()
        scene.must_end(driver, EXIT_DONE)
    finally:
        subprocess.run(["ip", "netns", "delete", netns], check=True)
    scene.what = "python: ch-run of an image by mmdebstrap and pip, in a network of its own"
    assert scene.ends == ["done"], scene.ends
    used = used_path.read_text(encoding="utf-8").splitlines()
    own_torch = f"/{HOME}/.venv/lib/python3.11/site-packages/torch/__init__.py"
    assert used == [f"{own_torch} Network is unreachable"] * NUM_RANKS, used


def _make_image() -> Path:
    """Make the image in a new folder, which stays, and return it."""
    folder = Path(tempfile.mkdtemp(prefix="aiayn-image-")) / "image"
    packages = (CHECKOUT / "workflow/container/debian.txt").read_text(encoding="utf-8").split()
    subprocess.run(
        ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", "bookworm", folder],
        check=True,
    )
    (folder / HOME).mkdir(parents=True)
    for name in PACKED:
        source, copy = CHECKOUT / name, folder / HOME / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    for path in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):  # a proxy's, too
        shutil.copy(f"/{path}", folder / path)
    install = f"cd /{HOME} && python3 workflow/install.py demo"
    subprocess.run(["chroot", folder, "/bin/sh", "-c", install], check=True)
    return folder
