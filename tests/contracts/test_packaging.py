"""pyproject.toml, constraints.txt and environment.yml name the same packages in the same versions."""

import tomllib
from pathlib import Path

import pytest
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
    """Return the version of each package; comments and empty lines are left out."""
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
    found: set[str] = set()
    for place in find["where"]:
        found |= set(find_packages(str(CHECKOUT / place), include=find["include"]))
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
    assert found == folders


PYPROJECT = (
    '[project]\ndependencies = ["torch>=2.11,<2.14"]\noptional-dependencies = {dev ='
    ' ["types-PyYAML"]}\n'
)
CONSTRAINTS = "# a comment\ntorch==2.13.0\ntypes_PyYAML==6.0  # another\nfilelock==3.0\n"
ENVIRONMENT = "dependencies:\n- python=3.12\n- pip:\n  - torch==2.13.0\n  - types-pyyaml==6.0\n"


@pytest.mark.parametrize(
    ("constraint", "conda", "faults"),
    [
        ("torch==2.13.0", "torch==2.13.0", []),
        ("", "torch==2.13.0", ["torch is not pinned", "torch is 2.13.0, pinned None"]),
        ("torch==2.14.0", "torch==2.14.0", ["torch 2.14.0 is not <2.14,>=2.11"]),
        ("torch==2.13.0", "torch==2.12.0", ["torch is 2.12.0, pinned 2.13.0"]),
        ("torch==2.13.0", "filelock==3.0", ["torch is missing"]),
        ("torch==2.13.0", "torch==2.13.0\n  - numpy==2.0", ["numpy is 2.0, pinned None"]),
    ],
)
def test_a_disagreement_is_noticed(constraint: str, conda: str, faults: list[str]) -> None:
    constraints = CONSTRAINTS.replace("torch==2.13.0", constraint)
    assert faults_of(PYPROJECT, constraints, ENVIRONMENT.replace("torch==2.13.0", conda)) == faults
