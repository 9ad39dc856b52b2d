"""Installs Debian packages that tests need, by apt-get."""

import os
import subprocess

UPDATE = ("update", "-qq")
LONGEST_INSTALLATION_SECONDS = 300


class InstallationError(Exception):
    """apt-get could not install a package. The message has its last lines."""


def install_packages(*packages: str) -> None:
    """Install Debian packages without those that they only recommend. This needs root.

    Raises:
        InstallationError: if apt-get fails or takes more than LONGEST_INSTALLATION_SECONDS.
    """
    _apt_get(*UPDATE)
    _apt_get("install", "-y", "-qq", "--no-install-recommends", *packages)


def _apt_get(*arguments: str) -> None:
    command = [
        "apt-get",
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "DPkg::Lock::Timeout=60",
        *arguments,
    ]
    try:
        finished = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST_INSTALLATION_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallationError(f"{' '.join(command)}: not done after {error.timeout} s") from error
    # An update that could not reach some source is reported, but may have brought all that is
    # needed.
    if finished.returncode != 0 and arguments != UPDATE:
        tail = "\n  ".join(finished.stdout.rstrip().split("\n")[-5:])
        raise InstallationError(f"{' '.join(command)} failed:\n  {tail}")
