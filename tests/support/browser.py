"""Opens a page in headless Chromium, without a driver: as a picture, as PDF, or as its final DOM."""

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


def write_picture(
    page_path: Path, picture_path: Path, *, width: int, height: int, scheme: str
) -> None:
    """Write a page's first `height` pixels as PNG, `width` pixels wide, in the scheme `light` or
    `dark`.
    """
    _visit(page_path, width, height, scheme, f"--screenshot={picture_path}")


def write_pdf(page_path: Path, pdf_path: Path) -> None:
    """Write a page as it is printed."""
    _visit(page_path, 1400, 900, "light", f"--print-to-pdf={pdf_path}", "--no-pdf-header-footer")


def final_dom(page_path: Path, *, width: int, scheme: str) -> str:
    """Return a page's DOM as HTML after its scripts have ended."""
    budget = f"--virtual-time-budget={SCRIPT_MILLISECONDS}"
    return _visit(page_path, width, 900, scheme, budget, "--dump-dom")


def _visit(page_path: Path, width: int, height: int, scheme: str, *actions: str) -> str:
    command = [
        require_chromium(),
        "--headless",
        "--no-sandbox",  # which root cannot have; the page is our own
        "--disable-gpu",
        "--disable-dev-shm-usage",  # small in containers
        "--hide-scrollbars",
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={SETTING_BY_SCHEME[scheme]}",
        *actions,
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
