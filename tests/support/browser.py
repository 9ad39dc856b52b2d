"""Opens a page in headless Chromium, without a driver, and returns its final DOM."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.debian import InstallationError, install_packages

# The headless shell comes first: a window of it may be as narrow as a phone.
COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGE = "chromium-headless-shell"
LONGEST_VISIT_SECONDS = 120
# A value of Blink's setting `preferredColorScheme`, which answers `prefers-color-scheme`.
SETTING_BY_SCHEME = {"dark": 0, "light": 1}
# The page's own clock runs ahead while scripts wait. Chromium waits for all of them within this.
SCRIPT_MILLISECONDS = 1_000_000


class BrowserUnavailableError(Exception):
    """This machine has no Chromium and cannot install it. The message says why."""


def require_chromium() -> str:
    """Return the command of a Chromium. As root on Debian install one if there is none.

    Raises:
        BrowserUnavailableError: if there is none, with the reason.
    """
    for command in COMMANDS:
        if shutil.which(command):
            return command
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BrowserUnavailableError(
            f"none of {', '.join(COMMANDS)} is on PATH; install Debian's package {PACKAGE}, or run"
            " as root with apt-get"
        )
    try:
        install_packages(PACKAGE)
    except InstallationError as error:
        raise BrowserUnavailableError(str(error)) from error
    return PACKAGE


def final_dom(page_path: Path, *, width: int, scheme: str) -> str:
    """Return a page's DOM as HTML after its scripts have ended."""
    budget = f"--virtual-time-budget={SCRIPT_MILLISECONDS}"
    command = [
        require_chromium(),
        "--headless",
        "--no-sandbox",  # which root cannot have; the page is our own
        "--disable-gpu",
        "--disable-dev-shm-usage",  # small in containers
        "--hide-scrollbars",
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={SETTING_BY_SCHEME[scheme]}",
        budget,
        "--dump-dom",
        page_path.resolve().as_uri(),
    ]
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile_folder:
        command.insert(1, f"--user-data-dir={profile_folder}")
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_VISIT_SECONDS,
        )
    if finished.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{finished.stderr[-2000:]}")
    return finished.stdout
