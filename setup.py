"""Builds the wheel with files that are outside of the Python packages: the workflow, and the
measured runs.

In the wheel, `aiayn/checkout/` holds the files of the workflow with their paths in the checkout.
The verbs read the config in this folder, and `aiayn init` copies the folder. An editable
installation reads the files in the checkout itself.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# Patterns relative to the checkout. MANIFEST.in has the same files: a wheel is built from the
# source distribution, which contains only what MANIFEST.in lists.
MEASURED = "paper_tables/measured/**/*"  # packs of runs, and the shipped model
WORKFLOW = (
    "Snakefile",
    "constraints.txt",
    "environment.yml",
    "profiles/*/*",
    "workflow/Snakefile",
    "workflow/config/**/*",
    "workflow/report/*",
    "workflow/rules/*",
    "analysis/**/*.smk",
)


class BuildWithWorkflow(build_py):
    """The build step that copies the packages, and then the files of the workflow and the measured
    runs.
    """

    def run(self) -> None:
        """Copy all files into the folder from which the wheel is made."""
        super().run()
        # An editable installation reads these files in the checkout.
        if self.editable_mode:
            return
        wheel_folder = Path(self.build_lib)
        copy_files(MEASURED, wheel_folder)
        for pattern in WORKFLOW:
            copy_files(pattern, wheel_folder / "aiayn" / "checkout")


def copy_files(pattern: str, folder: Path) -> None:
    """Copy the files that match a pattern into `folder`, with their paths in the checkout.

    Raises:
        FileNotFoundError: if no file matches, because MANIFEST.in does not list the files.
    """
    # `**/*` matches folders, too.
    paths = [path for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"{ROOT / pattern}: no such file; look at MANIFEST.in")
    for path in paths:
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


setup(cmdclass={"build_py": BuildWithWorkflow})
