"""`make install` takes a Python that the project supports, or refuses at once. Pythons and pip are
fakes.

The workflow for GitHub runs `.ci/run` on the same Pythons as the Makefile.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

CHECKOUT = Path(__file__).resolve().parents[2]
# Calls itself another version: answers questions (-c), makes environments of itself (-m venv),
# notes what pip is to do.
STAND_IN = """\
#!/bin/sh
case "$*" in
-c*) exec {python} -c 'import platform, sys
sys.version_info = (*map(int, "{version}".split(".")),)
platform.python_version = lambda: "{version}"
exec(sys.argv[1])' "$2" ;;
workflow/install.py*) exec {python} -c 'import runpy, sys
sys.executable, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$0" "$@" ;;
"-m venv"*)
    for folder; do :; done
    cp "$0" "$folder.python"; rm -rf "$folder"; mkdir -p "$folder/bin"; mv "$folder.python" "$folder/bin/python" ;;
"-m pip config list") echo "global.index-url='https://index.example'" ;;
"-m pip"*)
    echo "{version} $*" >> pip_calls
    mkdir -p .venv/lib/python3/site-packages/torch
    echo "__version__ = '2.13.0+cpu'" > .venv/lib/python3/site-packages/torch/version.py ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


def stand_in(path: Path, version: str) -> Path:
    """Write a fake Python of this version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN.format(python=sys.executable, version=version), encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with what `make install` reads, and `python3` on PATH to be put in `bin`."""
    folder = tmp_path / "my checkout"
    folder.mkdir()
    (folder / "workflow").mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "workflow/install.py"):
        shutil.copy2(CHECKOUT / name, folder / name)
    shutil.copytree(CHECKOUT / "requirements", folder / "requirements")
    return folder


def install(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make install` with the fakes first on PATH."""
    path = os.pathsep.join([str(checkout.parent / "bin"), os.environ["PATH"]])
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return subprocess.run(
        ["make", *(arguments or ["install"])],
        cwd=checkout,
        env=variables | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def versions_installed_with(checkout: Path) -> set[str]:
    """Return the versions of the Pythons whose pip was called."""
    path = checkout / "pip_calls"
    return (
        {line.split(" ")[0] for line in path.read_text(encoding="utf-8").splitlines()}
        if path.exists()
        else set()
    )


@pytest.mark.parametrize("version", ["3.6.8", "3.9.18", "3.10.13", "3.14.0"])
def test_a_python_that_will_not_do_is_refused_before_anything_is_made(
    checkout: Path, version: str
) -> None:
    stand_in(checkout.parent / "bin" / "python3", version)
    done = install(checkout)
    assert done.returncode != 0
    message = (
        f"make: python3 ({checkout.parent}/bin/python3) is Python {version}, expected 3.11, 3.12 or"
        " 3.13; "
    )
    assert message in done.stderr
    assert "load a module that has one, or name one: make install PYTHON=python3.12" in done.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("version", ["3.11.7", "3.12.1", "3.13.0"])
def test_a_python_that_will_do_is_installed_with(checkout: Path, version: str) -> None:
    stand_in(checkout.parent / "bin" / "python3", version)
    done = install(checkout)
    assert done.returncode == 0, done.stderr
    assert versions_installed_with(checkout) == {version}
    assert (checkout / ".venv" / "installed").exists()


def test_the_core_is_installed_without_torch_and_is_not_installed_again(checkout: Path) -> None:
    stand_in(checkout.parent / "bin" / "python3", "3.12.1")
    done = install(checkout, "core")
    assert done.returncode == 0, done.stderr
    assert "next: source .venv/bin/activate" in done.stdout
    calls = (checkout / "pip_calls").read_text(encoding="utf-8")
    assert "-r requirements/figures.txt" in calls
    assert "--no-deps --editable ." in calls
    assert "torch" not in calls
    assert install(checkout, "core").returncode == 0
    assert (checkout / "pip_calls").read_text(encoding="utf-8") == calls
    assert install(checkout, "install").returncode == 0
    assert "torch" in (checkout / "pip_calls").read_text(encoding="utf-8")


def test_an_environment_of_a_wrong_python_is_made_anew(checkout: Path) -> None:
    """It is left by a first attempt with the login node's own. python3 must not be looked up in it
    either.
    """
    stand_in(checkout.parent / "bin" / "python3", "3.9.18")
    stand_in(checkout.parent / "bin" / "python3.11", "3.11.7")
    for name in ("python", "python3", "python3.11"):
        stand_in(checkout / ".venv" / "bin" / name, "3.9.18")
    assert install(checkout).returncode != 0
    assert (checkout / ".venv" / "bin" / "python3").exists()
    done = install(checkout, "install", "PYTHON=python3.11")
    assert done.returncode == 0, done.stderr
    assert versions_installed_with(checkout) == {"3.11.7"}
    assert not (checkout / ".venv" / "bin" / "python3").exists()


def test_an_environment_of_a_right_python_stays_whatever_python3_is(checkout: Path) -> None:
    """A later `make test`, after an update of the requirements, needs no module loaded."""
    stand_in(checkout.parent / "bin" / "python3", "3.9.18")
    stand_in(checkout / ".venv" / "bin" / "python", "3.12.1")
    (checkout / ".venv" / "kept").touch()
    done = install(checkout)
    assert done.returncode == 0, done.stderr
    assert versions_installed_with(checkout) == {"3.12.1"}
    assert (checkout / ".venv" / "kept").exists()


def test_no_python_at_all_is_said(checkout: Path) -> None:
    done = install(checkout, "install", "PYTHON=python3.11.99")
    assert done.returncode != 0
    assert (
        "make: no python3.11.99; load a module that has one, or name one: make install PYTHON="
        in done.stderr
    )


def test_the_pythons_of_the_makefile_are_those_of_the_project_and_of_its_workflow() -> None:
    text = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    (versions,) = re.findall(r"^PYTHON_VERSIONS := (.*)$", text, flags=re.MULTILINE)
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    allowed = SpecifierSet(settings["project"]["requires-python"])
    assert versions.split() == [
        f"3.{minor}" for minor in range(30) if allowed.contains(f"3.{minor}")
    ]
    assert f"expected {', '.join(versions.split()[:-1])} or {versions.split()[-1]};" in text
    workflow = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert (
        yaml.safe_load(workflow)["jobs"]["ci"]["strategy"]["matrix"]["python"] == versions.split()
    )
