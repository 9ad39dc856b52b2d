"""pyproject.toml, constraints.txt, environment.yml and the files of hashes name the same packages
in the same versions.
"""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from setuptools import find_packages

CHECKOUT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    """Return a file of the checkout."""
    return (CHECKOUT / name).read_text(encoding="utf-8")


def direct_requirements(pyproject: str) -> dict[str, SpecifierSet]:
    """Return what pyproject.toml names, extras included, and which versions it allows."""
    project = tomllib.loads(pyproject)["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    requirements = [Requirement(line) for line in lines]
    return {
        canonicalize_name(requirement.name): requirement.specifier for requirement in requirements
    }


def pinned_versions(constraints: str) -> dict[str, str]:
    """Return the version of each package. Comments and empty lines are left out."""
    version_by_name = {}
    for line in constraints.splitlines():
        if text := line.partition("#")[0].strip():
            name, _, version = text.partition("==")
            version_by_name[canonicalize_name(name)] = version
    return version_by_name


def conda_lines(environment: str) -> list[str]:
    """Return the lines of an environment file's pip section."""
    sections = [
        entry["pip"]
        for entry in yaml.safe_load(environment)["dependencies"]
        if isinstance(entry, dict)
    ]
    assert len(sections) == 1
    return list(sections[0])


def faults_of(pyproject: str, constraints: str, environment: str) -> list[str]:
    """Return where a direct dependency is missing or of a version that is not allowed, or two files
    disagree.
    """
    pinned, in_conda = (
        pinned_versions(constraints),
        pinned_versions("\n".join(conda_lines(environment))),
    )
    faults = []
    for name, allowed in direct_requirements(pyproject).items():
        if name not in pinned:
            faults.append(f"{name} is not pinned")
        elif not allowed.contains(pinned[name]):
            faults.append(f"{name} {pinned[name]} is not {allowed}")
        if name not in in_conda:
            faults.append(f"{name} is missing")
    disagreeing = [name for name, version in in_conda.items() if version != pinned.get(name)]
    return faults + [
        f"{name} is {in_conda[name]}, pinned {pinned.get(name)}" for name in disagreeing
    ]


def test_every_direct_dependency_is_pinned_as_pyproject_allows_and_conda_has_the_same() -> None:
    assert faults_of(read("pyproject.toml"), read("constraints.txt"), read("environment.yml")) == []


def test_the_environments_python_is_one_that_the_project_takes() -> None:
    allowed = SpecifierSet(tomllib.loads(read("pyproject.toml"))["project"]["requires-python"])
    names = [
        entry
        for entry in yaml.safe_load(read("environment.yml"))["dependencies"]
        if isinstance(entry, str)
    ]
    pythons = [entry.partition("=")[2].strip("=") for entry in names if entry.startswith("python=")]
    assert len(pythons) == 1
    assert allowed.contains(pythons[0])


def test_the_packages_that_are_found_are_the_folders_with_an_init_file() -> None:
    find = tomllib.loads(read("pyproject.toml"))["tool"]["setuptools"]["packages"]["find"]
    assert find["namespaces"] is False  # folders of data and byte code are not packages
    packages: set[str] = set()
    for place in find["where"]:
        packages |= set(find_packages(str(CHECKOUT / place), include=find["include"]))
    roots = [
        ("workflow", "aiayn"),
        ("workflow", "aiayn_fairseq"),
        (".", "analysis"),
        (".", "paper_tables"),
    ]
    folders = {
        ".".join(path.parent.relative_to(CHECKOUT / root).parts)
        for root, name in roots
        for path in (CHECKOUT / root / name).rglob("__init__.py")
    }
    assert packages == folders


HASHED = re.compile(
    r"^([\w.-]+)==(\S+?)(?: ; .*?)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)
# A CUDA build's libraries are other ones of each build: only torch.txt pins them, for the build of the package index.
OF_CUDA = re.compile(r"triton|cuda-.*|nvidia-.*")


def hashed_versions(name: str) -> dict[str, str]:
    """Return the version of each package of a file of hashes, whose every line must be one of a
    hash.
    """
    text = "\n".join(
        line for line in read(f"requirements/{name}.txt").splitlines() if line[:1] != "#"
    )
    assert HASHED.sub("", text).strip() == "", name
    return {canonicalize_name(name): version for name, version, _ in HASHED.findall(text)}


def test_the_hashes_are_of_the_pinned_versions_and_of_every_extra() -> None:
    pinned = pinned_versions(read("constraints.txt"))
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    names = {path.stem for path in (CHECKOUT / "requirements").glob("*.txt")}
    assert names == {*extras, "build", "torch", "fairseq"}
    unpinned, used = set(), set()
    for name in names:
        versions = hashed_versions(name)
        unpinned |= {package for package in versions if package not in pinned}
        used |= set(versions)
        others = {p: v for p, v in versions.items() if pinned.get(p, v) != v}
        assert others == {}, f"{name}: constraints.txt has other versions; make requirements"
    # Of another system or of CUDA: Windows' and macOS's terminals.
    assert {package for package in unpinned if not OF_CUDA.fullmatch(package)} == {
        "appnope",
        "pyreadline3",
        "pywinpty",
    }
    assert set(pinned) - used == set()


def test_the_files_have_all_that_the_installed_packages_of_an_extra_require() -> None:
    """What nothing resolves (--no-deps) must be there already. The metadata of this environment
    says what.
    """
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    core = tomllib.loads(read("pyproject.toml"))["project"]["dependencies"]
    apart = {*hashed_versions("torch"), *hashed_versions("fairseq")}
    for extra, lines in extras.items():
        versions = hashed_versions(extra)
        waiting, seen = [Requirement(line) for line in core + lines], set()
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            if name in seen:
                continue
            seen.add(name)
            assert name in versions or (extra in ("train", "translate") and name in apart), (
                f"{extra}: {name}"
            )
            try:
                needs = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:  # tour is not installed here
                continue
            for line in needs:
                needed = Requirement(line)
                named = [{"extra": option} for option in ("", *requirement.extras)]
                if needed.marker is None or any(needed.marker.evaluate(each) for each in named):
                    waiting.append(needed)


def test_the_files_of_hashes_are_for_every_python_of_the_project() -> None:
    """Four packages are for one Python or another system. torch.txt has CUDA's for Linux."""
    for path in (CHECKOUT / "requirements").glob("*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            requirement = line[:1].isalnum() and Requirement(line.removesuffix(" \\"))
            if not requirement or requirement.marker is None or path.stem == "torch":
                continue
            for python in ("3.11.0", "3.13.9"):
                machine = {"python_full_version": python, "python_version": python[:4]}
                applies = requirement.marker.evaluate({"sys_platform": "linux", **machine})
                if requirement.name not in ("overrides", "appnope", "pywinpty", "pyreadline3"):
                    assert applies, f"{path.name}: {line}"
