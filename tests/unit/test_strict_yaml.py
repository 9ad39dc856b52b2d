"""Strict YAML: what is wrong is refused with file, line and the next step."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from aiayn.errors import ConfigError
from aiayn.spec.strict_yaml import convert, overlay, read_document


class Dough(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A nested mapping."""

    flour_grams: int
    yeast_fraction: float


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A spec with every kind of field that the project's specs have."""

    name: str
    dough: Dough
    shape: Literal["round", "long"] = "round"
    rests: list[int] = []
    price_by_shop_by_town: dict[str, dict[str, Dough]] = {}
    oil_grams: float | None = None


DOUGH = "dough:\n  flour_grams: 500\n  yeast_fraction: 0.01\n"


def written(folder: Path, text: str, name: str = "bread.yaml") -> Path:
    """Write a YAML file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


@pytest.mark.parametrize(
    ("absent", "line"),
    [("dough.salt", 2), ("dough.salt.kind", 2), ("oil", 1)],
)
def test_an_absent_key_is_placed_at_the_nearest_enclosing_one(
    tmp_path: Path, absent: str, line: int
) -> None:
    path = written(tmp_path, f"name: bread\n{DOUGH}rests: [30]\n")
    assert read_document(path).location(absent) == f"{path}:{line}"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (f"name: bread\n{DOUGH}price_by_shop_by_town:\n  Ulm: {{}}\n  Bonn: {{Moser: {{flour_grams: x}}}}\n",
         "7: price_by_shop_by_town.Bonn.Moser.flour_grams: 'x': Expected `int`, got `str`"),
        (f"name: bread\n{DOUGH}oil_grams: 1{400 * '0'}\n", "5: .*out of range"),
        ("name: bread\ndough: [1, 2\nshape: round\n", "3: not YAML"),
        ("name: b\a\n", " not YAML: unacceptable character #x0007"),
        ("name: 0x_\n", " not YAML: invalid literal for int"),
        ("name: 2024-13-41\n", " not YAML: month must be in 1..12"),
        ("name: !!bool maybe\n", " not YAML: 'maybe'"),
    ],
)  # fmt: skip
def test_it_is_refused_with_file_and_line(tmp_path: Path, text: str, refusal: str) -> None:
    """All else that specs refuse is in the transcripts `refused_*`."""
    with pytest.raises(ConfigError, match=f"^{tmp_path}/bread.yaml:{refusal}"):
        convert(read_document(written(tmp_path, text)), Recipe)


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("zzz.yaml", r"zzz\.yaml: no such file; .* holds: no YAML file$"),
        ("none/zzz.yaml", r"zzz\.yaml: no such file; the folder .*/none does not exist$"),
        ("", "cannot be read as UTF-8 text"),
        ("a\0b", "cannot be read as UTF-8 text"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, refusal: str) -> None:
    written(tmp_path, "repos: []\n", ".hooks.yaml")  # no neighbour of a config
    with pytest.raises(ConfigError, match=refusal):
        read_document(tmp_path / name)


def test_an_overlay_replaces_values_keeps_the_rest_and_knows_from_which_file_each_key_came(
    tmp_path: Path,
) -> None:
    below = read_document(written(tmp_path, f"name: bread\n{DOUGH}rests: [30, 60]\n", "below.yaml"))
    above = read_document(
        written(tmp_path, "rests: [10]\ndough:\n  flour_grams: 400\n", "above.yaml")
    )
    merged = overlay(below, above)
    dough = {"flour_grams": 400, "yeast_fraction": 0.01}
    assert merged.values == {"name": "bread", "dough": dough, "rests": [10]}
    assert below.values["dough"]["flour_grams"] == 500, "the document below must stay as it was"
    assert merged.location("dough.flour_grams") == f"{tmp_path}/above.yaml:3"
    assert merged.location("dough.yeast_fraction") == f"{tmp_path}/below.yaml:4"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: http://me:s3cret@host/file\n", ":1: name"),
        ("rests:\n  - https://token@host\n", ":1: rests"),
        ("dough:\n  flour_grams: a=http://me:s3cret@proxy\n", ":2: dough.flour_grams"),
    ],
)
def test_a_url_with_a_password_is_refused_and_not_repeated(
    tmp_path: Path, text: str, place: str
) -> None:
    with pytest.raises(ConfigError) as error:
        convert(read_document(written(tmp_path, text)), Recipe)
    assert f"{place}: a URL with a user name or password, expected a URL without" in str(
        error.value
    )
    assert "s3cret" not in str(error.value)


def test_an_at_sign_elsewhere_in_a_url_is_accepted(tmp_path: Path) -> None:
    text = f"name: http://host/a@b?c=d@e and me@host\n{DOUGH}"
    assert convert(read_document(written(tmp_path, text)), Recipe).name.startswith(
        "http://host/a@b"
    )
