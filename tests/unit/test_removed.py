"""Each row of the table of removed things is answered with its sentence, and names nothing that
still exists.
"""

import pytest

from aiayn.__main__ import main, verbs
from aiayn.errors import ConfigError
from aiayn.removed import REMOVED
from aiayn.spec.strict_yaml import convert
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec, read_scale_document

# A flag of a wing's verb is answered only while the wing is there.
ANSWERED = [name for name in REMOVED if " " not in name or name.split()[0] in verbs()]


def read_with_key(key: str) -> ScaleSpec:
    """Read the demo's config with one more key."""
    document = read_scale_document(CONFIG_FOLDER / "demo.yaml")
    document.values[key] = True
    return convert(document, ScaleSpec)


def answer_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return how the program answers the use of a row's name; each answer ends with exit code 2 or
    a ConfigError.
    """
    if name.endswith(":"):
        with pytest.raises(ConfigError) as raised:
            read_with_key(name.removesuffix(":"))
        return str(raised.value)
    assert main(name.split()) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ANSWERED)
def test_each_removed_name_is_answered_by_one_line_with_its_replacement(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(name, capsys).rstrip("\n")
    assert answer.endswith(f" is gone: {REMOVED[name]}")
    assert "\n" not in answer


def test_a_removed_flag_is_found_after_others_and_with_its_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tables", "--from-logs", "seeds", "--log-cache=out"]) == 2
    assert (
        capsys.readouterr().err
        == f"aiayn tables: --log-cache is gone: {REMOVED['tables --log-cache']}\n"
    )


def test_a_removed_value_of_a_flag_leaves_other_values_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(REMOVED, "train --precision fp8", "use bf16")
    assert main(["train", "--precision=fp8"]) == 2
    assert capsys.readouterr().err == "aiayn train: --precision fp8 is gone: use bf16\n"
    with pytest.raises(SystemExit):  # argparse asks for the required flags
        main(["train", "--precision", "bf16"])
    assert "is gone" not in capsys.readouterr().err
