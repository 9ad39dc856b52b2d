"""Honest logs fill their row, documented recipes that differ get a labelled row: with start lines
of fairseq's parsers.

Only the start line of a log is the parser's; the other lines are those of `tests.logs.factory`.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from aiayn.logs.arguments import parse_arguments
from paper_tables.compare.judgement import label_of_texts
from paper_tables.compare.lines import AveragedLine, average_trainings
from paper_tables.compare.systems import read_systems
from paper_tables.compare.training import count_parameters
from tests.logs import factory
from tests.logs.factory import Form, GenerationText, TrainingText, averaging_text, write

FOLDER = Path(__file__).parent / "start_lines"
SYSTEMS = read_systems(["paper"])
FORM_BY_VERSION: dict[str, Form] = {
    "0.6.1": "print", "0.9.0": "print", "0.10.2": "namespace", "0.12.3": "config",
}  # fmt: skip
NUM_CHECKPOINTS = {"base": 5, "big": 20}
FILLED = 0.87  # of the positions are target tokens


def start_line(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def training_text(name: str, form: Form) -> str:
    """Return a complete log whose start line is a parser's, and whose other lines agree with it."""
    line = start_line(name)
    arguments: dict[str, Any] = dict(parse_arguments(line))
    frequency = arguments["update_freq"]
    tokens = FILLED * arguments["max_tokens"] * frequency * 8
    needed = {
        "lr": arguments["lr"],
        "warmup_updates": arguments.get("warmup_updates"),
        "lr_scheduler": "inverse_sqrt",
        "max_update": arguments["max_update"],
        "source_lang": arguments["source_lang"],
        "target_lang": arguments["target_lang"],
        "data": arguments["data"],
        "save_dir": arguments["save_dir"],
        "distributed_world_size": 8,
    }
    text = TrainingText(
        form=form, num_epochs=40, num_parameters=parameters_of(arguments), arguments=needed
    ).text()
    printed = text.split("\n")[0]
    begin = re.search(r"Namespace\(|\{'_name'", printed)
    assert begin is not None
    return text.replace(printed, printed[: begin.start()] + line).replace(
        "24900.5", f"{tokens:.1f}"
    )


def parameters_of(arguments: dict[str, Any]) -> int:
    from aiayn.facts.symbols import symbols_of_arguments

    return count_parameters(symbols_of_arguments(arguments), (37_000, 37_000), SYSTEMS[0]) or 0


def lines_of(folder: Path) -> list[AveragedLine]:
    return average_trainings(factory.judged(folder, SYSTEMS).trainings)[0]


def write_run(folder: Path, system: str, version: str) -> Path:
    """Write a training, the average of its last checkpoints and its translation, as a version
    prints them.
    """
    form = FORM_BY_VERSION[version]
    generation = GenerationText(form=form)
    text = generation.text()
    line = start_line(f"generate-{system}-{version}")
    begin = re.search(r"Namespace\(.*", text)
    assert begin is not None
    path = f"checkpoints/{system}/averaged.pt"
    inputs = [
        f"checkpoints/{system}/checkpoint{epoch}.pt"
        for epoch in range(40, 40 - NUM_CHECKPOINTS[system], -1)
    ]
    return write(
        folder,
        {
            "train.log": training_text(f"{system}-{version}", form),
            "average.log": averaging_text(inputs, path),
            "generate.log": text.replace(begin[0], line).replace(
                "checkpoints/base/averaged.pt", path
            ),
        },
    )


@pytest.mark.parametrize("version", FORM_BY_VERSION)
@pytest.mark.parametrize("system", ["base", "big"])
def test_an_honest_log_fills_its_row(system: str, version: str, tmp_path: Path) -> None:
    (line,) = lines_of(write_run(tmp_path, system, version))
    assert (line.system.system, line.configuration) == (system, ())
    assert line.trainings[0].perplexity_labels == ()
    assert {key: [one.value for one in scored] for key, scored in line.scored("test").items()} == {
        ((), "bleu_as_given", ""): [27.31]
    }


@pytest.mark.parametrize("version", FORM_BY_VERSION)
def test_three_seeds_of_an_honest_log_are_averaged(version: str, tmp_path: Path) -> None:
    text = training_text(f"base-{version}", FORM_BY_VERSION[version])
    for seed in (1, 2, 3):
        changed = re.sub(r"(\bseed['=: ]+)1\b", rf"\g<1>{seed}", text)
        changed = changed.replace("nll_loss 2.000", f"nll_loss 2.0{seed}0").replace(
            "nll_loss 2.500", f"nll_loss 2.5{seed}0"
        )
        changed = changed.replace("nll_loss 21.500", f"nll_loss 21.5{seed}0")
        write(tmp_path, {f"{seed}.log": changed.replace("checkpoints/base", f"checkpoints/{seed}")})
    (line,) = lines_of(tmp_path)
    assert [one.seed for one in line.trainings] == [1, 2, 3]


RECIPES = {
    "recipe-scaling_nmt": ("0.12.3", ["tokens_per_update 458,752", "updates 40,000"]),
    "recipe-scaling_nmt_rate": (
        "0.10.2",
        ["tokens_per_update 458,752", "updates 24,000", "peak_learning_rate 0.001"],
    ),
    "recipe-wmt_big_t2t": ("0.6.1", ["norm_order pre"]),
    "recipe-lightconv": ("0.9.0", ["p_drop_attention 0.1", "schedule cosine", "updates 30,000"]),
    "recipe-layerdrop": ("0.10.2", ["encoder_layerdrop 0.2", "decoder_layerdrop 0.2"]),
    "recipe-backtranslation": ("0.12.3", ["upsample_primary 16"]),
    "recipe-plain_adam": ("0.12.3", ["adam_beta_2 0.999", "weight_decay 0.0001", "clip_norm 0.1"]),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_documented_recipe_that_differs_has_a_labelled_row(name: str, tmp_path: Path) -> None:
    version, quantities = RECIPES[name]
    (line,) = lines_of(write(tmp_path, {"a.log": training_text(name, FORM_BY_VERSION[version])}))
    for quantity in quantities:
        assert quantity in line.configuration
    label = label_of_texts(line.configuration)
    assert label.count(";") == min(len(set(line.configuration)) - 1, 3)
    assert ("; +" in label) == (len(set(line.configuration)) > 3)


def test_the_recipe_of_another_corpus_has_no_row(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.log": training_text("recipe-iwslt", "print")})
    (judged,) = factory.judged(folder, SYSTEMS).trainings
    assert judged.system is None
    assert "language-pair" in {finding.check for finding in judged.findings}


def test_a_log_of_a_parser_states_no_argument_that_is_not_known() -> None:
    from aiayn.logs.arguments import KNOWN_ARGUMENTS

    for path in FOLDER.glob("*.txt"):
        program = "generate" if path.name.startswith("generate") else "train"
        parsed = parse_arguments(path.read_text(encoding="utf-8"))
        assert parsed.program == program
        assert parsed.keys() - KNOWN_ARGUMENTS[program].keys() == set()
