"""Wings are found by listing `analysis/`. Each folder can be deleted, and the rest installs, lints
and works.
"""

import contextlib
import os
import pkgutil
import shutil
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiayn.__main__ import CORE_VERBS, main
from aiayn.errors import ConfigError
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.wings import (
    Wing,
    WingTable,
    find_wings,
    module_of_verb,
    present_wings,
    registered,
    wing_tables,
)
from paper_tables.frame import Frame
from paper_tables.render.chapters import (
    CHAPTERS,
    FURTHER,
    LOGS_TABLE,
    place_of_figure,
    place_of_table,
    scale_tables,
)
from paper_tables.render.draw import draw_figures
from tests.mutants.run import copy_tree

CHECKOUT = Path(__file__).resolve().parents[2]
ANALYSIS = CHECKOUT / "analysis"
MULTI30K = Path("paper_tables", "measured", "multi30k")
# Quick tests of the core that are run without wings. `make test` runs the engine's, and those of facts, logs, known good
# settings and scores, with every wing hidden.
CORE_FOLDERS = ("unit", "contracts", "workflow")
NAMES = sorted(path.parent.name for path in ANALYSIS.glob("*/wing.py"))
WING = 'from aiayn.wings import Wing, WingTable\n\nWING = Wing(summary="a wing of the test", {})\n'


def make_wing(folder: Path, name: str, source: str) -> None:
    """Write a wing with a single file into a folder that replaces `analysis/`."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    (folder / name / "wing.py").write_text(source, encoding="utf-8")


@pytest.fixture
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty folder that is the package `analysis` for this test."""
    folder = tmp_path / "analysis"
    folder.mkdir()
    before = {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] == "analysis"
    }
    monkeypatch.setattr(load_package(), "__path__", [str(folder)])
    for name in before.keys() - {"analysis"}:
        monkeypatch.delitem(sys.modules, name)
    present_wings.cache_clear()
    yield folder
    for name in [name for name in sys.modules if name.startswith("analysis.")]:
        del sys.modules[name]
    present_wings.cache_clear()


def load_package() -> object:
    """Return the package `analysis`."""
    import analysis

    return analysis


def test_what_the_wings_register_can_be_loaded() -> None:
    assert list(present_wings()) == NAMES
    assert all(callable(pkgutil.resolve_name(table.layout)) for table in wing_tables())
    assert all(
        Path(CHECKOUT, wing.stage.rules).is_file()
        for wing in present_wings().values()
        if wing.stage
    )
    for kind in ("scale_figures", "answer"):
        assert all(map(callable, registered(kind)))
    verbs = [verb for wing in present_wings().values() for verb in wing.verbs]
    assert [module_of_verb(verb) for verb in verbs] == [
        f"analysis.{name}.verbs.{verb}"
        for name, wing in present_wings().items()
        for verb in wing.verbs
    ]
    assert set(verbs).isdisjoint(CORE_VERBS)


def test_every_registered_table_has_a_chapter_and_a_place_of_its_own() -> None:
    places = [place_of_table(table.name) for table in scale_tables()]
    places.append(place_of_table(LOGS_TABLE))
    assert len(places) == len(set(places))
    assert FURTHER not in places
    assert place_of_table("none") == FURTHER
    assert place_of_figure("none") == FURTHER


def test_the_order_of_the_page_does_not_depend_on_the_names_of_wings(analysis: Path) -> None:
    for name, place in (("a", 45), ("z", 15)):
        table = (
            f'tables=(WingTable("{name}_table", "analysis.{name}.tables:lay_out",'
            f' chapter="results", place={place}),)'
        )
        make_wing(analysis, name, WING.format(table))
    names = sorted(
        ["a_table", "z_table", "table2", "replications", "baselines"], key=place_of_table
    )
    assert names == ["table2", "z_table", "replications", "a_table", "baselines"]


def test_an_unknown_chapter_is_one_sentence(analysis: Path) -> None:
    make_wing(
        analysis,
        "a",
        WING.format('tables=(WingTable("t", "analysis.a.t:t", chapter="result", place=1),)'),
    )
    with pytest.raises(
        ConfigError, match=f"places t in chapter 'result', expected one of {CHAPTERS[0].name}, "
    ):
        place_of_table("t")


def test_a_folder_of_byte_code_is_ignored_and_python_files_without_a_wing_file_are_one_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "gone" / "verbs" / "__pycache__").mkdir(parents=True)
    (tmp_path / "gone" / "verbs" / "__pycache__" / "plan.cpython-311.pyc").touch()
    assert find_wings(tmp_path) == {}
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "check.py").touch()
    with pytest.raises(ConfigError, match=r"/odd: has Python files but no wing\.py"):
        find_wings(tmp_path)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("WING = Wing(", "SyntaxError"),
        ("import absent_package\n", "ModuleNotFoundError: No module named 'absent_package'"),
        ("", "AttributeError"),
        (WING.format("verbs={1: 2}"), "ValidationError: Expected `str`"),
    ],
)
def test_a_broken_wing_file_is_one_sentence_with_its_folder(
    analysis: Path, source: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wing(analysis, "broken", source)
    for arguments in (["--help"], ["plan"]):
        assert main(arguments) == 1
        answer = capsys.readouterr()
        assert answer.out == ""
        assert answer.err.startswith(
            f"aiayn: {analysis / 'broken' / 'wing.py'}: cannot be read: {error}"
        )
        assert answer.err.count("\n") == 1


def repeated_registrations(wings: Iterable[Wing]) -> list[str]:
    """Return what more than one wing registers."""
    registrations: list[str] = []
    for wing in wings:
        registrations += [f"verb {verb}" for verb in wing.verbs]
        registrations += [f"table {table.name}" for table in wing.tables]
        registrations += [f"figure {figure.name}" for figure in wing.figures]
        registrations += [f"stage {wing.stage.verb}"] if wing.stage else []
        registrations += ["answer"] if wing.answer else []
    return [name for name, number in Counter(registrations).items() if number > 1]


def test_no_two_wings_register_the_same_thing() -> None:
    assert repeated_registrations(present_wings().values()) == []
    table = WingTable("costs", "analysis.a.t:t", chapter="results", place=1)
    wing = Wing(summary="", verbs={"plan": "predict"}, tables=(table,), answer="analysis.a.a:a")
    assert repeated_registrations([wing, wing]) == ["verb plan", "table costs", "answer"]


def test_without_a_wing_that_draws_the_folder_of_figures_is_there_and_empty(
    analysis: Path, tmp_path: Path
) -> None:
    frame = Frame(scale="demo", hardware=read_hardware(CONFIG_FOLDER / "hardware.yaml"))
    assert draw_figures(tmp_path / "figures", frame, None, None) == []
    assert list((tmp_path / "figures").iterdir()) == []


@dataclass(frozen=True)
class Copy:
    """A copy of the checkout that is installed in place in its own virtual environment, without
    dependencies.
    """

    folder: Path
    bin_folder: Path

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Take the two folders of a wing away for the length of the block."""
        removed = self.folder.parent / "removed"
        for parent in ("analysis", "tests"):
            if (self.folder / parent / name).exists():
                (removed / parent).mkdir(parents=True, exist_ok=True)
                (self.folder / parent / name).rename(removed / parent / name)
        try:
            yield
        finally:
            for path in removed.glob("*/*"):
                # What a command has written there meanwhile, such as byte code, is no wing's.
                shutil.rmtree(self.folder / path.parent.name / name, ignore_errors=True)
                path.rename(self.folder / path.parent.name / name)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in the copy. It must end well."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV")
        }
        path = os.pathsep.join(
            [str(self.bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        answer = subprocess.run(
            [str(self.bin_folder / "python"), *command],
            cwd=self.folder,
            env=kept | {"PATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, (
            f"{command}\n{answer.stdout[-4000:]}\n{answer.stderr[-4000:]}"
        )
        return answer

    def install(self) -> None:
        """Install the copy in place, as `make install` does, but for the dependencies, which are
        there.
        """
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall")
        self.run("-m", "pip", "install", *options, "--editable", ".")

    def require_whole(self, absent: set[str]) -> None:
        """Require that ruff and the contracts pass, that pytest finds every test, and that the list
        of verbs is right without some wings.
        """
        self.run("-m", "ruff", "check", "--no-cache", ".")
        self.run(
            "-c",
            "import sys; from importlinter.cli import lint_imports_command as lint;"
            " sys.exit(lint())",
        )
        self.run("-m", "pytest", "-q", "--collect-only", "-n", "0", "tests")
        shown = self.run("-m", "aiayn", "--help").stdout
        verbs = {verb: name for name, wing in present_wings().items() for verb in wing.verbs}
        assert {verb for verb in verbs if f"\n  {verb} " in shown} == {
            verb for verb, name in verbs.items() if name not in absent
        }
        assert "\n  train " in shown

    def require_types_and_tables(self, absent: set[str]) -> None:
        """Require that types hold, and that the tables of the pack are made again byte for byte."""
        self.run("-m", "mypy", "--cache-dir", str(self.folder.parent / "mypy"))
        self.run(
            "-c",
            "import sys; sys.modules['vl_convert'] = None; from aiayn.__main__ import main;"
            " sys.exit(main())",
            "tables",
            "--from-logs",
            str(MULTI30K),
            "--output",
            "build/again",
        )
        gone = {table.name for name in absent for table in present_wings()[name].tables}
        for path in sorted((CHECKOUT / MULTI30K / "tables").iterdir()):
            again = self.folder / "build" / "again" / "multi30k" / "tables" / path.name
            if path.stem in gone:
                assert not again.exists()
            else:
                assert again.read_bytes() == path.read_bytes(), path.name


def make_copy(folder: Path) -> Copy:
    """Return a copy whose environment finds the packages of this one, but not its editable
    installation.
    """
    copy_tree(folder / "copy")
    (folder / "copy" / "slurm").symlink_to(os.readlink(CHECKOUT / "slurm"))
    venv.create(folder / "venv", symlinks=True)
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A path in a .pth file is searched, but .pth files in it, as an editable installation's, are
    # not read.
    paths = [path for path in sys.path if path.endswith("-packages")]
    (site_packages / "others.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
    return Copy(folder / "copy", folder / "venv" / "bin")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return a copy that was installed with all wings."""
    copy = make_copy(tmp_path_factory.mktemp("wings"))
    copy.install()
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_a_wing_the_rest_is_whole(installed: Copy, name: str) -> None:
    """That the rest installs is what the test below shows."""
    with installed.without(name):
        installed.require_whole({name})


@pytest.mark.slow
def test_without_any_wing_the_core_is_whole_and_trains(tmp_path: Path) -> None:
    copy = make_copy(tmp_path / "wings")
    for name in NAMES:
        shutil.rmtree(copy.folder / "analysis" / name)
        shutil.rmtree(copy.folder / "tests" / name, ignore_errors=True)
    copy.install()
    copy.require_whole(set(NAMES))
    copy.require_types_and_tables(set(NAMES))
    chosen = [f"tests/{name}" for name in CORE_FOLDERS]
    copy.run("-m", "pytest", "-q", "-m", "not slow and not figures", *chosen)
    flags = (
        "--profile profiles/local --configfile workflow/config/demo.yaml --cores 2 --config updates=20"
        " only=table3_c_n2:1"
    )
    copy.run("-m", "snakemake", *flags.split())
    assert (copy.folder / "results" / "demo" / "report.html").is_file()
