"""Write the files of the workflow into a folder, to train there: Snakefile, rules, config and
profiles.

In this folder and its subfolders `snakemake` works as in a checkout of the project. The verbs read
the config in this folder, which you may change. `aiayn init` is for the installed package, because
a checkout contains these files already.
"""

import shutil
from pathlib import Path

from aiayn.cli.flags import flag
from aiayn.errors import UsageError
from aiayn.provenance import new_folder_on_success
from aiayn.spec.system import CHECKOUT, IS_CHECKOUT, PACKED_WORKFLOW

EXAMPLE = "aiayn init attention"


class Flags:
    folder: Path = flag("a folder that is new or empty", "FOLDER", is_positional=True)


def run(args: Flags) -> None:
    """Write the folder of the workflow, and print the next command to type.

    Raises:
        UsageError: if the verb is called in a checkout, or if the folder is not empty. In both
            cases nothing is written.
    """
    folder = args.folder
    # A second copy would not be used: in a checkout all verbs read its own config.
    if IS_CHECKOUT:
        raise UsageError(
            f"{CHECKOUT}: this checkout has the workflow already, and its verbs read its config;"
            " type `snakemake -n` in it, or clone it again"
        )
    # The finished folder replaces FOLDER by a rename. If FOLDER is the working directory, the shell
    # would stay in the replaced folder, which no longer has a path.
    is_here = folder.absolute() == Path.cwd()
    if is_here or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        reason = "is the working directory" if is_here else "is not an empty folder"
        raise UsageError(f"{folder}: {reason}; nothing was written; name a new folder")
    with new_folder_on_success(folder) as partial_folder:
        # The context manager has made the folder, in which copytree would fail by default.
        shutil.copytree(PACKED_WORKFLOW, partial_folder, dirs_exist_ok=True)
        # `snakemake --profile slurm` looks in the working directory.
        (partial_folder / "slurm").symlink_to("profiles/slurm")
    print(
        f"{folder}: Snakefile, workflow/config, profiles; next: `cd {folder}`, then `snakemake -n"
        " --profile profiles/local --configfile workflow/config/demo.yaml`, which lists the jobs"
        " of the smallest scale"
    )
