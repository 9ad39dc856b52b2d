"""Slurm's words are in `launch/slurm`, and in what is about clusters: another executor is another
folder like it.
"""

import re
from pathlib import Path

WORDS = re.compile(
    r"slurm|squeue|sbatch(?!_lines)|scancel|scontrol|\bsrun\b(?!_options)", re.IGNORECASE
)
PACKAGE = Path(__file__).parents[2] / "workflow" / "aiayn"
ABOUT_CLUSTERS = (
    "launch/slurm/",
    "spec/cluster.py",
    "logs/",
    "data/text/prefixes.py",
)  # logs of anybody's cluster
REGISTERED = (
    "launch/launcher.py",
    "launch/job.py",
)  # a line each for the launcher, its queue and its jobs
HELP = ("cli/train.py",)  # the example's launcher


def files_with_words(package: Path) -> set[str]:
    """Return the files that speak of Slurm outside of what is about clusters."""
    names = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if WORDS.search(path.read_text(encoding="utf-8"))
    }
    return {name for name in names if not name.startswith(ABOUT_CLUSTERS)}


def test_only_the_launcher_speaks_of_slurm() -> None:
    assert files_with_words(PACKAGE) == {*REGISTERED, *HELP}


def test_a_word_elsewhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "status.py").write_text(
        'reason = "squeue does not answer"\n', encoding="utf-8"
    )
    assert files_with_words(tmp_path) == {"runs/status.py"}
