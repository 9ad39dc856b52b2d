"""`make mutants` says which changes to the product no test notices. Its lists fit the present code."""

import re
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.run import CHECKOUT, Mutant, main, read_mutants

SCHEDULE = "workflow/aiayn/schedule.py"


def make_mutant(
    name: str = "slower",
    old: str = "warmup_steps**-1.5",
    new: str = "warmup_steps**-1.25",
) -> Mutant:
    """Return a mutant of equation (3)."""
    tests = ["tests/unit/test_schedule.py"]
    return Mutant(name=name, file=SCHEDULE, old=old, new=new, tests=tests)


def is_of_deleted_wing(mutant: Mutant) -> bool:
    """Return whether a mutant changes, or is noticed by, a wing whose folder is deleted."""
    folders = {
        Path(*Path(name.partition("::")[0]).parts[:2]) for name in (mutant.file, *mutant.tests)
    }
    return any(
        folder.parts[0] in ("analysis", "tests") and not (CHECKOUT / folder).exists()
        for folder in folders
    )


@pytest.mark.parametrize(
    "mutant",
    [one for one in read_mutants() if not is_of_deleted_wing(one)],
    ids=lambda mutant: mutant.name,
)
def test_every_mutant_fits_the_present_code_and_names_tests_that_exist(mutant: Mutant) -> None:
    assert (CHECKOUT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}" in (CHECKOUT / file).read_text(encoding="utf-8")


def test_killed_survived_and_unfit_mutants_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("no git here, whose files are copied")
    mutants = [
        make_mutant("slower"),
        make_mutant("equal", new="warmup_steps**-1.50"),
        make_mutant("absent", old="no such text"),
        make_mutant("ambiguous", old="warmup_steps"),
    ]
    monkeypatch.setattr(run, "read_mutants", lambda: mutants)
    assert main([]) == 1
    slower, equal, *unfit, total = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"slower +killed \(\d+ s\)", slower)
    assert re.fullmatch(r"equal +SURVIVED \(\d+ s\)", equal)
    assert "absent: workflow/aiayn/schedule.py has 0 times 'no such text', expected 1" in unfit[0]
    assert "ambiguous: workflow/aiayn/schedule.py has 3 times 'warmup_steps'" in unfit[1]
    assert total == "1 of 4 mutants killed"
