"""What is in other people's folders: each case once filled a row without a word, or kept an honest
number out.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from aiayn.facts.trainings import JoinedLogs
from tests.known_good.folders import (
    AVERAGED,
    AVERAGING,
    BASE,
    GENERATION,
    PLACE,
    WHOLE,
    filled,
    generation,
    judge_base,
    judge_texts,
    noted,
    problems_of,
    training,
)
from tests.logs.factory import TrainingText, averaging_text

FIRST_CHECKPOINT, LAST_WHOLE = 11, 10
ALL = {"a.log": WHOLE, "g.log": ["bleu"]}
GLUON = (
    "INFO:root:Namespace(average_checkpoint=False, batch_size=2700, bleu='13a', epochs=30, lr=2.0,"
    " optimizer='adam', save_dir='transformer_en_de_u512', warmup_steps=4000)\n[Epoch 29] test"
    " bleu=27.05\n"
)
PREPROCESS = (
    "Namespace(bpe=None, criterion='cross_entropy', destdir='data-bin', joined_dictionary=True,"
    " lr_scheduler='fixed', source_lang='en', target_lang='de', task='translation',"
    " trainpref='x/train', validpref='x/valid', workers=20)\n"
)


def without(lines: list[str], pattern: str) -> str:
    return "\n".join(line for line in lines if not re.search(pattern, line)) + "\n"


def timed(text: str, begin: str = "2024-03-01 00:00:00", end: str = "2024-03-01 12:00:00") -> str:
    """Return a log whose first line has one time, and every line after the first half another."""
    lines = text.split("\n")
    half = len(lines) // 2
    early = [line.replace("2024-03-01 12:00:00", begin) for line in lines[:half]]
    return "\n".join([*early, *(line.replace("2024-03-01 12:00:00", end) for line in lines[half:])])


def halves(first: TrainingText, second: TrainingText) -> tuple[str, str]:
    """Return the outputs of a job that was killed in epoch 11, and of its requeued job."""
    killed = without(replace(first, is_done=False).lines(), r"epoch 0(1[1-9]|20)")
    loaded = f"loaded checkpoint {PLACE}/checkpoint_last.pt (epoch 11 @ 50000 updates)"
    resumed = replace(second, first_epoch=FIRST_CHECKPOINT, num_epochs=LAST_WHOLE, loaded=loaded)
    return killed, resumed.text()


# Part 1


def test_1_a_training_that_diverges_is_set_apart_and_the_others_fill(tmp_path: Path) -> None:
    text = BASE.text()
    for epoch in range(12, 21):
        text = re.sub(
            rf"(epoch 0{epoch} \| valid on 'valid' subset \| loss )[\d.]+( \| nll_loss )[\d.]+( \|"
            r" ppl )[\d.]+",
            r"\g<1>1612.402\g<2>1611.987\g<3>inf",
            text,
        )
    judged = judge_base(
        tmp_path, bad=text, a=BASE.changed(seed=2, save_dir="b").text(), av="", g=""
    )
    assert filled(judged)["a.log"] == WHOLE
    assert "final_nll_bits" in problems_of(judged, "bad.log")


def test_1_a_number_of_five_thousand_digits_is_a_torn_line(tmp_path: Path) -> None:
    text = BASE.text().replace("num_updates 100000", "num_updates " + "9" * 5000)
    judged = judge_base(tmp_path, a=text, b=BASE.changed(seed=2, save_dir="b").text(), av="", g="")
    assert filled(judged)["b.log"] == WHOLE
    assert filled(judged)["a.log"] == []


def test_3_what_is_not_a_log_of_a_fairseq_training_is_not_judged(tmp_path: Path) -> None:
    judged = judge_texts(tmp_path, {"preprocess.log": PREPROCESS, "gluon.log": GLUON})
    assert (judged.trainings, judged.generations) == ([], [])


def test_3_the_output_of_preprocess_train_and_generate_is_one_job(tmp_path: Path) -> None:
    text = PREPROCESS + BASE.text() + AVERAGING + GENERATION.text()
    judged = judge_base(tmp_path, a=text, av="", g="")
    assert sorted(filled(judged).values()) == [["bleu"], WHOLE]


@pytest.mark.parametrize("prefix", [
    "0: ", " 0: ", "[default0]:", "2024-03-01T12:00:00.123456789Z ", "Mar 01 12:00:00 ", "    ", "> ",
    "worker_1  | ", "\t",
])  # fmt: skip
def test_4_a_prefix_of_every_line_changes_nothing(prefix: str, tmp_path: Path) -> None:
    prefixed = {
        name: "".join(f"{prefix}{line}\n" for line in text.lines())
        for name, text in (("a", BASE), ("g", replace(GENERATION, num_printed=3003)))
    }
    assert filled(judge_base(tmp_path, **prefixed)) == ALL


def test_5_an_indented_last_line_is_the_score(tmp_path: Path) -> None:
    lines = GENERATION.lines()
    judged = judge_base(tmp_path, g="\n".join(lines[:-1]) + f"\n    {lines[-1]}\n")
    assert filled(judged) == ALL


def test_7_several_decodings_of_one_training_are_one_seed(tmp_path: Path) -> None:
    others = {
        name: replace(
            GENERATION, value=value, score=GENERATION.score.replace("66501", length)
        ).text()
        for name, value, length in (("g2", "27.05", "66510"), ("g3", "27.20", "66490"))
    }
    judged = judge_base(tmp_path, **others)
    assert len(judged.trainings) == 1
    assert [one.value for one in judged.generations] == [27.31, 27.05, 27.2]


@pytest.mark.parametrize(("changed", "expected"), [
    ({"dropout": 0.3}, "p_drop"), ({"data": "other"}, "data_of_starts"),
    ({"criterion": "composite_loss"}, "eps_ls"), ({"num_workers": 3, "log_interval": 7}, ""),
])  # fmt: skip
def test_9_41_the_first_half_of_a_resumed_training_counts(
    changed: dict[str, object], expected: str, tmp_path: Path
) -> None:
    first, second = halves(BASE.changed(**changed), BASE)
    in_one_file = judge_base(tmp_path / "one", a=first + second)
    two_files = judge_base(tmp_path / "two", a=first, b=second)
    for judged in (in_one_file, two_files):
        if expected:
            assert filled(judged)["a.log"] == []
            assert expected in problems_of(judged, "a.log")
        else:
            assert filled(judged) == ALL


@pytest.mark.parametrize(("inputs", "expected"), [
    ([f"checkpoint{epoch}.pt" for epoch in (20, 18, 16, 14, 12)], "5 checkpoints up to checkpoint20.pt"),
    ([f"checkpoint{epoch}.pt" for epoch in range(10, 5, -1)], "5 checkpoints up to checkpoint10.pt"),
    (["checkpoint20.pt"] * 5, "5 checkpoints up to checkpoint20.pt"),
    (["checkpoint_last.pt", "checkpoint20.pt"], "2 checkpoints up to checkpoint20.pt"),
    ([f"../other/checkpoint{epoch}.pt" for epoch in range(16, 21)], "5 checkpoints of checkpoints/other"),
])  # fmt: skip
def test_10_an_average_of_others_is_not_the_last_five(
    inputs: list[str], expected: str, tmp_path: Path
) -> None:
    averaging = averaging_text([f"{PLACE}/{name}" for name in inputs], AVERAGED)
    judged = judge_base(tmp_path, av=averaging)
    (problem,) = generation(judged).problems
    assert (problem.quantity, problem.value, problem.expected) == ("average", expected, "last5")


def test_10_updates_are_in_a_row_by_the_interval_of_saving(tmp_path: Path) -> None:
    lines = BASE.changed(save_interval_updates=5000).text()
    paths = [f"{PLACE}/checkpoint_20_{update}.pt" for update in range(100_000, 75_000, -5000)]
    assert filled(judge_base(tmp_path, a=lines, av=averaging_text(paths, AVERAGED))) == ALL
    paths[1:2] = []
    judged = judge_base(tmp_path / "b", a=lines, av=averaging_text(paths, AVERAGED))
    assert generation(judged).problems[0].value == "4 checkpoints up to checkpoint_20_100000.pt"


@pytest.mark.parametrize(("path", "fills"), [
    (f"/scratch/me/{AVERAGED}", True), ("checkpoints/big/checkpoint.avg5.pt", False),
    (f"{PLACE}/checkpoint_best_avg5.pt", False),
])  # fmt: skip
def test_10_a_checkpoint_of_a_different_folder_or_name_does_not_fill(
    path: str, fills: bool, tmp_path: Path
) -> None:
    judged = judge_base(tmp_path, av="", g=GENERATION.changed(path=path).text())
    assert ("g.log" in filled(judged)) == fills


# A search that cuts long translations, or hypotheses that are still in pieces.
PIECES = {"remove_bpe": None}
SEARCHES = [
    ({}, "Hund .", ""), ({"max_len_a": 1.0, "max_len_b": 50}, "Hund .", ""),
    ({"max_len_a": 1.2, "max_len_b": 10}, "Hund .", ""),
    ({"max_len_a": 1.0, "max_len_b": 0}, "Hund .", "limit_of_20_tokens"),
    ({"max_len_a": 0, "max_len_b": 50}, "Hund .", "limit_of_100_tokens"),
    ({"max_len_b": 10}, "Hund .", "limit_of_20_tokens"), (PIECES, "Der Hu ##nd .", "counts"),
    (PIECES, "\u0120Der \u0120Hu nd", "counts"), (PIECES, "\u2581Der \u2581Hu nd", "counts"),
    (PIECES, "Hu@@ nd", "counts"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "hypothesis", "quantity"), SEARCHES)
def test_11_45_what_a_search_prints(
    changed: dict[str, object], hypothesis: str, quantity: str, tmp_path: Path
) -> None:
    printed = replace(GENERATION, num_printed=3003, hypothesis=hypothesis).changed(**changed)
    judged = judge_base(tmp_path, g=printed.text())
    assert (quantity in problems_of(judged, "g.log")) == bool(quantity)
    assert ("g.log" in filled(judged)) == (not quantity)


def test_15_a_windows_path_is_one_model(tmp_path: Path) -> None:
    place = "C:\\\\ck\\\\base"
    generation = GENERATION.changed(path=f"{place}\\\\checkpoint.avg5.pt")
    judged = judge_base(tmp_path, a=BASE.changed(save_dir=place).text(), av="", g=generation.text())
    assert filled(judged) == ALL


# Part 2: honest logs


def saved_lines(last_epoch: int) -> list[str]:
    return [
        f"2024-03-01 12:00:00 | INFO | fairseq.checkpoint_utils | saved checkpoint"
        f" {PLACE}/checkpoint{epoch}.pt (epoch {epoch} @ {5000 * epoch} updates, score 3.6)"
        " (writing took 1.5 seconds)"
        for epoch in range(1, last_epoch + 1)
    ]


@pytest.mark.parametrize("has_lines", [True, False])
def test_34_the_last_epoch_that_max_update_cuts_saves_no_checkpoint(
    has_lines: bool, tmp_path: Path
) -> None:
    # 5,440 updates an epoch; the 19th ends after 2,080 of them.
    text = replace(BASE, num_epochs=19).text()
    for epoch in range(19, 0, -1):
        size = 100_000 // 19
        old, new = str(epoch * size), str(min(100_000, epoch * 5440))
        text = re.sub(rf"\bnum_updates {old}\b", f"num_updates {new}", text)
    text = re.sub(r"\d{4}-\d\d-\d\d 12:00:00 \| INFO \| train_inner.*\n", "", text)
    text = re.sub(r"bsz [\d.]+", f"bsz {4_500_966 / 5440:.1f}", text)
    if has_lines:
        text = text.replace(
            "2024-03-01 12:00:00 | INFO | fairseq_cli.train | done",
            "\n".join([*saved_lines(18), "2024-03-01 12:00:00 | INFO | fairseq_cli.train | done"]),
        )
    inputs = [f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(18, 13, -1)]
    judged = judge_base(tmp_path, a=text, av=averaging_text(inputs, AVERAGED))
    assert filled(judged)["g.log"] == ["bleu"]
    inputs = [f"{PLACE}/checkpoint{epoch}.pt" for epoch in range(19, 14, -1)]
    judged = judge_base(tmp_path / "b", a=text, av=averaging_text(inputs, AVERAGED))
    assert "g.log" not in filled(judged)


def test_35_57_fairseq_0_12_2_counts_its_encoder_twice(tmp_path: Path) -> None:
    twice = 63_102_976 + 6 * 3_150_336
    ours = replace(BASE, form="config", num_parameters=twice)
    judged = judge_base(tmp_path, a=ours.text())
    assert filled(judged) == ALL
    assert training(judged).value_by_metric["num_parameters"] == 63_102_976
    # Other versions do not count it twice.
    judged = judge_base(tmp_path / "b", a=replace(BASE, num_parameters=twice).text())
    assert "parameters_of_arguments" in problems_of(judged, "a.log")


def test_36_a_requeued_job_with_one_output_each_is_one_training(tmp_path: Path) -> None:
    first, second = halves(BASE, BASE)
    judged = judge_base(tmp_path, **{"a": "", "slurm-1": first, "slurm-2": second})
    assert filled(judged) == {"slurm-1.log": WHOLE, "g.log": ["bleu"]}


def test_36_of_two_starts_from_one_checkpoint_the_later_one_counts(tmp_path: Path) -> None:
    first, second = halves(BASE, BASE)
    failed = "".join(
        line
        for line in second.splitlines(keepends=True)
        if "epoch 0" not in line and "done" not in line
    )
    texts = {
        "slurm-8": timed(first),
        "slurm-9": timed(failed, begin="2024-03-02 00:00:00", end="2024-03-02 00:10:00"),
        "slurm-10": timed(second, begin="2024-03-03 00:00:00", end="2024-03-03 12:00:00"),
    }
    judged = judge_base(tmp_path, a="", **texts)
    assert filled(judged) == {"slurm-8.log": WHOLE, "g.log": ["bleu"]}
    assert [one.path for one in training(judged, "slurm-8").sections] == [
        f"{name}.log" for name in texts
    ]


def test_the_cost_is_the_time_of_each_start_times_its_gpus(tmp_path: Path) -> None:
    first, second = halves(BASE, BASE.changed(distributed_world_size=1, update_freq=[8]))
    first, second = (
        timed(first),
        timed(second, begin="2024-03-02 00:00:00", end="2024-03-02 12:00:00"),
    )
    judged = judge_base(tmp_path, **{"a": "", "slurm-1": first, "slurm-2": second})
    assert filled(judged) == {"slurm-1.log": WHOLE, "g.log": ["bleu"]}
    assert training(judged, "slurm-1").gpu_seconds == 43_200 * 8 + 43_200


def test_the_time_of_a_start_without_clock_includes_its_last_part_of_an_epoch(
    tmp_path: Path,
) -> None:
    first, second = halves(replace(BASE, form="print"), replace(BASE, form="print"))
    torn_epoch = "| epoch 011:  4000 / 5000 loss=4.1, nll_loss=2.5, ppl=5.66, lr=0.000190, num_updates=54000, wall=23329\n"
    judged = judge_base(tmp_path, **{"a": "", "slurm-1": first + torn_epoch, "slurm-2": second})
    assert training(judged, "slurm-1").gpu_seconds == (23_329 + 43_200) * 8


def test_a_time_that_does_not_exist_sets_apart_one_training_only(tmp_path: Path) -> None:
    damaged = BASE.changed(seed=2, save_dir="checkpoints/b").text()
    damaged = damaged.replace("2024-03-01 12:00:00", "2024-02-30 12:00:00", 3)
    judged = judge_base(tmp_path, damaged=damaged)
    assert filled(judged) == {**ALL, "damaged.log": []}
    assert problems_of(judged, "damaged.log") == {"conflict"}


@pytest.mark.parametrize(("old", "new"), [
    ("seed=1", f"seed={10**400}"), ("max_tokens=3250", f"max_tokens={10**400}"), ("lr=[0.0007]", f"lr=[{10**400}]"),
    ("epoch 003 | loss", f"epoch {'9' * 5000} | loss"),
])  # fmt: skip
def test_a_damaged_number_sets_apart_one_training_only(old: str, new: str, tmp_path: Path) -> None:
    text = BASE.changed(save_dir="checkpoints/b").text()
    assert old in text
    judged = judge_base(tmp_path, damaged=text.replace(old, new))
    assert filled(judged) == {**ALL, "damaged.log": []}


def test_lines_padded_with_blanks_and_a_last_line_without_line_feed_are_read(
    tmp_path: Path,
) -> None:
    padded = BASE.text().replace("\n", "  \n")
    assert filled(judge_base(tmp_path, a=padded, av=AVERAGING.rstrip("\n"))) == ALL


def test_37_a_copy_counts_once_and_its_translation_is_known(tmp_path: Path) -> None:
    copy = "Loading cuda/11.0\nLoading gcc/9\nLoading nccl\n" + BASE.text()
    judged = judge_base(tmp_path, **{"slurm-7": copy})
    assert len(judged.trainings) == 1
    assert sorted(filled(judged).values()) == [["bleu"], WHOLE]


def test_37_a_file_of_fairseqs_log_file_option_is_a_copy(tmp_path: Path) -> None:
    # fairseq's --log-file has the messages alone, and not those about data and dictionaries.
    text = re.sub(r"(?m)^2024.*\| (?:fairseq\.tasks|fairseq\.data).*\n", "", BASE.text())
    text = re.sub(r"(?m)^2024-\S+ \S+ \| INFO \| [\w.]+ \| ", "", text)
    judged = judge_base(tmp_path, a="", **{"a-file": text, "slurm-7": BASE.text()})
    assert filled(judged) == {"slurm-7.log": WHOLE, "g.log": ["bleu"]}
    assert training(judged, "slurm-7").copies == ["a-file.log"]


def test_37_a_copy_of_a_diverged_training_is_no_second_training(tmp_path: Path) -> None:
    text = re.sub(
        r"loss [\d.]+ \| nll_loss [\d.]+ \| ppl [\d.]+", "loss nan | nll_loss nan", BASE.text()
    )
    judged = judge_base(tmp_path, a=text, copy=text)
    assert [one.copies for one in judged.trainings] == [["copy.log"]]
    assert "conflict" not in problems_of(judged, "a.log")


def test_37_a_job_killed_before_its_first_validation_is_no_copy(tmp_path: Path) -> None:
    # Without clock times the arguments and the first update are equal, and nothing else is known.
    text = re.sub(r"(?m)^2024-\S+ \S+ \| INFO \| [\w.]+ \| ", "", BASE.text())
    lines = text.splitlines(keepends=True)
    first_validation = next(number for number, line in enumerate(lines) if "valid on" in line)
    killed = "".join(lines[:first_validation])
    judged = judge_base(tmp_path, a=text, **{"slurm-1": killed})
    assert [one.copies for one in judged.trainings] == [[], []]


def test_37_a_copy_beside_a_translation_says_whose_checkpoint_it_is(tmp_path: Path) -> None:
    other = replace(BASE, final_nll_bits=2.5).changed(seed=2).text()
    texts = {"a.log": BASE.text(), "other.log": other, "g/copy.log": BASE.text()}
    judged = judge_texts(tmp_path, texts | {"g/g.log": GENERATION.text()})
    assert generation(judged, "g/g.log").training is training(judged, "a.log")


def test_38_validations_begin_after_some_updates(tmp_path: Path) -> None:
    text = BASE.changed(validate_after_updates=50_000, save_interval_updates=5000)
    lines = [line for line in text.lines() if not re.search(r"epoch 00\d \| valid on", line)]
    assert filled(judge_base(tmp_path, a="\n".join(lines) + "\n"))["a.log"] == WHOLE


def test_56_a_generation_prints_a_model_group_that_it_does_not_use(tmp_path: Path) -> None:
    path = Path(__file__).with_name("start_lines") / "generate-base-0.12.3.txt"
    line = path.read_text(encoding="utf-8").strip()
    begin = line.index("{'_name'")
    config = line[begin:].replace("checkpoints/base/averaged.pt", AVERAGED)
    assert AVERAGED in config
    config = re.sub(
        r"'model': (?:None|\{[^{}]*\}|Namespace\([^()]*(?:\([^()]*\)[^()]*)*\))",
        "'model': {'_name': 'wav2vec2', 'extractor_mode': 'default', 'encoder_layers': 12}",
        config,
    )
    assert "wav2vec2" in config
    text = GENERATION.text()
    head = text[: text.index("Namespace(")]
    body = text.split("\n", 1)[1]
    assert filled(judge_base(tmp_path, g=f"{head}{config}\n{body}")) == ALL


# Part 2: wrong numbers


def test_39_a_checkpoint_that_is_decoded_before_the_training_ends(tmp_path: Path) -> None:
    dev = replace(GENERATION, subset="valid", num_sentences=3000).changed(
        path=f"{PLACE}/checkpoint_last.pt", gen_subset="valid"
    )
    training_text = timed(BASE.text())
    early = dev.text().replace("2024-03-02 12:00:00", "2024-03-01 09:00:00")
    judged = judge_base(tmp_path / "a", a=training_text, g=early)
    assert {one.quantity for one in generation(judged).problems} == {"decoded_after_training"}
    late = judge_base(tmp_path / "b", a=training_text, g=dev.text())
    assert filled(late)["g.log"] == ["bleu"]


def test_40_trainings_that_begin_from_one_checkpoint_are_not_three_seeds(tmp_path: Path) -> None:
    loaded = f"loaded checkpoint {PLACE}/checkpoint_last.pt (epoch 17 @ 80000 updates)"
    texts = {
        f"{seed}.log": replace(BASE, first_epoch=17, num_epochs=4, loaded=loaded)
        .changed(seed=seed, save_dir=f"checkpoints/s{seed}")
        .text()
        for seed in (1, 2, 3)
    }
    judged = judge_texts(tmp_path, texts)
    assert {name: numbers for name, numbers in filled(judged).items() if numbers} == {}
    assert all("history" in problems_of(judged, name) for name in texts)


def three_seeds(**changes: object) -> dict[str, str]:
    texts = {}
    for seed in (1, 2, 3):
        text = replace(BASE, final_nll_bits=2.0 + seed / 100)
        texts[f"{seed}.log"] = text.changed(seed=seed, save_dir=f"checkpoints/s{seed}").text()
        inputs = [f"checkpoints/s{seed}/checkpoint{epoch}.pt" for epoch in range(20, 15, -1)]
        texts[f"av{seed}.log"] = averaging_text(inputs, f"checkpoints/s{seed}/avg.pt")
        generation = replace(GENERATION, **changes).changed(path=f"checkpoints/s{seed}/avg.pt")
        texts[f"g{seed}.log"] = generation.text()
    return texts


def test_40_three_seeds_have_three_decodings(tmp_path: Path) -> None:
    texts = three_seeds()
    copied = judge_texts(tmp_path / "a", texts)
    assert [one.value for one in copied.generations] == [None] * 3
    for seed in (1, 2, 3):
        texts[f"g{seed}.log"] = texts[f"g{seed}.log"].replace("66501", f"6650{seed}")
    assert [one.value for one in judge_texts(tmp_path / "b", texts).generations] == [27.31] * 3


def test_40_two_seeds_with_the_same_losses_are_one(tmp_path: Path) -> None:
    texts = {"1.log": BASE.text(), "2.log": BASE.changed(seed=2, save_dir="b").text()}
    judged = judge_texts(tmp_path, texts)
    assert problems_of(judged, "1.log") == problems_of(judged, "2.log") == {"same_losses"}


def test_44_the_bleu_of_a_validation_fills_no_row_and_is_a_note(tmp_path: Path) -> None:
    search = {"eval_bleu": True, "eval_bleu_args": '{"beam": 4, "lenpen": 0.6}'}
    text = BASE.changed(**search).text()
    text = re.sub(r"(valid on 'valid' subset.*ppl [\d.]+)", r"\1 | bleu 25.80", text)
    judged = judge_base(tmp_path, a=text, av="", g="")
    assert filled(judged) == {"a.log": WHOLE}
    assert noted(training(judged)) == {"validation_bleu"}


def test_47_seconds_and_gpus_concern_the_cost_only(tmp_path: Path) -> None:
    text = timed(replace(BASE, seconds=4320.0).text())
    judged = judge_base(tmp_path / "a", a=text)
    assert filled(judged) == {"a.log": WHOLE[:3], "g.log": ["bleu"]}
    line = next(line for line in BASE.lines() if "capabilities" in line)
    other = line.replace("rank   0", "rank   1").replace("Tesla P100-SXM2-16GB", "Tesla V100     ")
    judged = judge_base(tmp_path / "b", a=BASE.text().replace(line, f"{line}\n{other}"))
    assert filled(judged) == {"a.log": WHOLE[:3], "g.log": ["bleu"]}


# Part 2: what is read


def test_50_interactive_is_not_a_translation_of_a_test_set(tmp_path: Path) -> None:
    dialogue = GENERATION.changed(buffer_size=1, path="model.pt").lines()[0]
    judged = judge_base(tmp_path, g=f"{dialogue}\nS-0\thello\nH-0\t-0.3\thallo\nP-0\t-0.3\n")
    assert judged.generations == []
    assert judged.file_by_path["g.log"].sections == ()


def test_51_old_scores_are_refused_by_their_form(tmp_path: Path) -> None:
    judged = judge_texts(tmp_path, {"g.log": "| BLEU4 = 21.55, 54.1/27.0/15.9/9.7 (BP=1.000)\n"})
    refusal = judged.file_by_path["g.log"].refusal
    assert refusal is not None
    assert "before 0.6" in refusal.text
    assert "aiayn explain" in refusal.next_step


def test_52_a_file_of_results_is_the_decoding_of_its_log(tmp_path: Path) -> None:
    generation = GENERATION.changed(results_path="results", quiet=False)
    text = replace(generation, has_start=False, num_printed=3003).text()
    judged = judge_base(tmp_path / "a", g=generation.text())
    texts = {f"{name}.log": text for name, text in (("a", BASE.text()), ("av", AVERAGING))}
    texts |= {"g.log": generation.text(), "results/generate-test.txt": text}
    judged = judge_texts(tmp_path / "b", texts)
    assert filled(judged) == ALL
    assert len(judged.generations) == 1


def test_a_score_that_is_printed_twice_fills(tmp_path: Path) -> None:
    text = GENERATION.text()
    assert filled(judge_base(tmp_path, g=f"{text}{text.splitlines()[-1]}\n")) == ALL


def relative_folders(folder: Path) -> JoinedLogs:
    first = BASE.changed(save_dir="checkpoints")
    second = replace(BASE, final_nll_bits=2.5).changed(save_dir="checkpoints", seed=2)
    texts = {"one/a.log": first.text(), "two/b.log": second.text()}
    for name in ("one", "two"):
        path = "checkpoints/avg.pt"
        inputs = [f"checkpoints/checkpoint{epoch}.pt" for epoch in range(20, 15, -1)]
        texts[f"{name}/av.log"] = averaging_text(inputs, path)
        texts[f"{name}/g.log"] = GENERATION.changed(path=path).text()
    texts["two/g.log"] = texts["two/g.log"].replace("66501", "66503")
    return judge_texts(folder, texts)


def test_a_relative_save_folder_counts_within_the_logs_own_folder(tmp_path: Path) -> None:
    judged = relative_folders(tmp_path)
    owners = {one.name: one.training for one in judged.generations}
    names = {name: owner.name for name, owner in owners.items() if owner is not None}
    assert names == {"one/g.log": "one/a.log", "two/g.log": "two/b.log"}
