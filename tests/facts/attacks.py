"""Writes the folders of attacks.toml: an honest folder with an edit."""

import re
import shutil
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ATTACKS: list[dict[str, Any]] = tomllib.loads((HERE / "attacks.toml").read_text("utf-8"))["attack"]


def write_attack(attack: dict[str, Any], folder: Path) -> Path:
    """Write the edited folder of an attack, and return it."""
    shutil.copytree(HERE / "honest" / attack["folder"], folder, dirs_exist_ok=True)
    for old, new in attack.get("copy", {}).items():
        shutil.copyfile(folder / old, folder / new)
    for edit in attack["edit"]:
        path = folder / edit["file"]
        text = path.read_text(encoding="utf-8")
        start = re.search(edit.get("start", ""), text)
        assert start is not None, edit
        changed, number = re.subn(
            edit["find"], edit["replace"], text[start.end() :], flags=re.MULTILINE
        )
        assert number, f"{attack['name']}: no match of {edit['find']}"
        path.write_text(text[: start.end()] + changed, encoding="utf-8")
    if "weave" in attack:
        first, second = (folder / name for name in attack["weave"])
        texts = [path.read_text(encoding="utf-8").splitlines() for path in (first, second)]
        woven = chain.from_iterable(zip(*texts, strict=True))
        first.write_text("\n".join(woven) + "\n", encoding="utf-8")
        second.unlink()
    return folder
