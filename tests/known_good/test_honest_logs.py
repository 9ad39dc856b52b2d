"""Honest logs fill their row, and documented recipes that differ do not: with start lines of
fairseq's parsers, and with whole logs that fairseq wrote.

Only the start line of a log of `start_lines` is the parser's; the other lines are those of
`tests.logs.factory`. The logs of `tests/facts/honest` are fairseq's own from the first line to the
last.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from aiayn.facts.arguments import parse_arguments
from aiayn.facts.derived import counted_parameters
from aiayn.facts.symbols import symbols_of_start
from aiayn.facts.types import Section
from aiayn.known_good.judge import RULES
from tests.known_good.folders import WHOLE, filled, judge, judge_texts, kept_out_by, training
from tests.logs.factory import Form, GenerationText, TrainingText, averaging_text, write

HONEST = Path(__file__).parent.parent / "facts" / "honest"
FOLDER = Path(__file__).parent / "start_lines"
FORM_BY_VERSION: dict[str, Form] = {
    "0.6.1": "print", "0.9.0": "print", "0.10.2": "namespace", "0.12.3": "config",
}  # fmt: skip
NUM_EPOCHS = {"base": 20, "big": 60}
NUM_CHECKPOINTS = {"base": 5, "big": 20}
FILLED = 0.87  # of the positions are target tokens


def start_line(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def arguments_of(name: str) -> dict[str, Any]:
    line = start_line(name)
    begin = re.search(r"Namespace\(|\{'_name'", line)
    assert begin is not None
    return dict(parse_arguments(line[begin.start() :]).by_key())


def training_text(name: str, form: Form) -> str:
    """Return a complete log whose start line is a parser's, and whose other lines agree with it."""
    line = start_line(name)
    arguments = arguments_of(name)
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
        form=form,
        num_epochs=NUM_EPOCHS.get(name.split("-", maxsplit=1)[0], 20),
        num_parameters=parameters_of(arguments),
        arguments=needed,
    ).text()
    printed = text.split("\n")[0]
    begin = re.search(r"Namespace\(|\{'_name'", printed)
    assert begin is not None
    return text.replace(printed, printed[: begin.start()] + line).replace(
        "24900.5", f"{tokens:.1f}"
    )


def parameters_of(arguments: dict[str, Any]) -> int:
    section = Section(path="", program="train", line=1, arguments=arguments)
    for _ in range(2):
        section.state("num_types", 37_000)
    section.symbols = symbols_of_start(section)
    return counted_parameters(section) or 0


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
        for epoch in range(NUM_EPOCHS[system], NUM_EPOCHS[system] - NUM_CHECKPOINTS[system], -1)
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
    judged = judge(write_run(tmp_path, system, version))
    assert filled(judged) == {"train.log": WHOLE, "generate.log": ["bleu"]}
    assert training(judged, "train.log").row.system == system  # type: ignore[union-attr]


@pytest.mark.parametrize("version", FORM_BY_VERSION)
def test_three_seeds_of_an_honest_log_fill(version: str, tmp_path: Path) -> None:
    text = training_text(f"base-{version}", FORM_BY_VERSION[version])
    texts = {}
    for seed in (1, 2, 3):
        changed = re.sub(r"(\bseed['=: ]+)1\b", rf"\g<1>{seed}", text)
        changed = re.sub(r"\| loss \d", f"| loss 1{seed}", changed)
        texts[f"{seed}.log"] = changed.replace("checkpoints/base", f"checkpoints/{seed}")
    judged = judge_texts(tmp_path, texts)
    assert filled(judged) == dict.fromkeys(texts, WHOLE)
    assert [one.seed for one in judged.trainings] == [1, 2, 3]


RECIPES = {
    "recipe-scaling_nmt": ("0.12.3", {"tokens_per_update", "updates"}),
    "recipe-scaling_nmt_rate": ("0.10.2", {"tokens_per_update", "updates", "peak_learning_rate"}),
    "recipe-wmt_big_t2t": ("0.6.1", {"norm_order"}),
    "recipe-lightconv": ("0.9.0", {"p_drop_attention", "schedule", "updates"}),
    "recipe-layerdrop": ("0.10.2", {"train.encoder_layerdrop", "train.decoder_layerdrop"}),
    "recipe-backtranslation": ("0.12.3", {"train.upsample_primary"}),
    "recipe-plain_adam": ("0.12.3", {"adam_beta_2", "weight_decay", "clip_norm"}),
    "recipe-iwslt": ("0.9.0", {"language_pair"}),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_documented_recipe_that_differs_does_not_fill(name: str, tmp_path: Path) -> None:
    version, quantities = RECIPES[name]
    judged = judge_texts(tmp_path, {"a.log": training_text(name, FORM_BY_VERSION[version])})
    assert filled(judged) == {"a.log": []}
    assert quantities <= kept_out_by(training(judged))


def test_a_log_of_a_parser_states_no_argument_that_is_not_known() -> None:
    for path in FOLDER.glob("*.txt"):
        program = "generate" if path.name.startswith("generate") else "train"
        stated = arguments_of(path.stem)
        keys = {f"{program}.{key}" for key, value in stated.items() if value is not None}
        assert keys - RULES.keys() == set()


# What a small corpus, model and number of updates cannot have.
OF_SIZE = {
    "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "warmup_steps", "updates",
    "peak_learning_rate", "tokens_per_update", "target_tokens", "train_pairs", "num_types",
    "dev_pairs", "num_scored", "reference_tokens", "bleu",
}  # fmt: skip
FORMS = sorted(path for path in HONEST.glob("*/*") if path.is_dir())


@pytest.mark.parametrize("folder", FORMS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_log_that_fairseq_wrote_has_no_problem_but_its_size(folder: Path) -> None:
    judged = judge(folder)
    assert len(judged.trainings) == 1
    for one in judged.trainings:
        assert kept_out_by(one) <= OF_SIZE
    for generation in judged.generations:
        assert kept_out_by(generation) <= OF_SIZE
