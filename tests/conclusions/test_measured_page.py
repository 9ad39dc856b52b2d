"""docs/measured.md, README.md and the seed noise of docs/conclusions.md: their numbers are those of
the shipped pack of Multi30k and of the public seeds.

The pages are written by hand; `test_measured` makes the pack's tables again byte for byte.
"""

import csv
import math
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from scipy import stats

from aiayn.packed import exists, glob, open_unpacked
from aiayn.paths import train_record
from aiayn.records import BinarizedCorpus, CheckpointRecord, TrainRecord, read_record
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from analysis.conclusions.fresh import RECURRENCE, read_seconds_an_update
from paper_tables.make_frame import make_frame
from paper_tables.measured.study.study_multi30k import (
    Noise,
    bits_noises,
    bleu_noises,
    compare_at_horizon,
    long_runs,
    printed_differences,
)
from paper_tables.names import name_of_key
from paper_tables.scale_results import gather_from_records

pytestmark = pytest.mark.figures
CHECKOUT = Path(__file__).resolve().parents[2]
PACK = CHECKOUT / "paper_tables" / "measured" / "multi30k"
ATTENTION = PACK.parent / "attention"  # the trainings of decision 0013, as they finish
CORPUS = "multi30k_en_de"
MAX_PAGE_BYTES = 12 * 1024
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
PAGE = (CHECKOUT / "docs" / "measured.md").read_text(encoding="utf-8")
TEXT, README_TEXT = (" ".join(page.split()) for page in (PAGE, README))
RULES_PAGE = (CHECKOUT / "docs" / "conclusions.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[+-]?\d+\.\d+(?:e-\d+)?")
BITS, BLEU = "bits_per_subword", "bleu_tok_compound_split"
DECIMALS_BY_METRIC = {BITS: 3, "bleu_sacre_13a": 2}


def read_pack(name: str) -> list[dict[str, str]]:
    """Return the lines of a table of the pack."""
    delimiter = "\t" if name.endswith(".tsv") else ","
    with (PACK / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter=delimiter))


LABELS = {  # of the rows, in docs/measured.md
    "table3_a_h1": "h 1",
    "table3_a_h4": "h 4",
    "table3_a_h16": "h 16",
    "table3_a_h32": "h 32",
    "table3_b_dk16": "d_k 16",
    "table3_b_dk32": "d_k 32",
    "table3_c_n2": "N 2",
    "table3_c_n4": "N 4",
    "table3_c_n8": "N 8",
    "table3_c_dmodel256": "d_model 256",
    "table3_c_dmodel1024": "d_model 1024",
    "table3_c_dff1024": "d_ff 1024",
    "table3_c_dff4096": "d_ff 4096",
    "table3_d_pdrop0": "P_drop 0.0",
    "table3_d_pdrop02": "P_drop 0.2",
    "table3_d_els0": "eps_ls 0.0",
    "table3_d_els02": "eps_ls 0.2",
    "table3_e_learned": "learned positions",
    "big": "big",
}
LABELS |= {"table3_d_pdrop0": "no dropout", "table3_d_els0": "no smoothing"}
CONTRASTS = read_pack("tables/conclusions.csv")


def row_of(contrast: dict[str, str]) -> str:
    return contrast["rows"].removesuffix(" minus base")


def effect_of(contrast: dict[str, str]) -> float:
    return float(contrast["ours"].split()[0])


ANSWERED = [contrast for contrast in CONTRASTS if contrast["answer"]]
BLEU_BY_ROW = {
    row_of(contrast): contrast for contrast in reversed(CONTRASTS) if contrast["metric"] == BLEU
}


def unknown_numbers(page: str) -> list[tuple[str, str]]:
    """Return each number in a table's row, with the row's name, that no table of the pack has."""
    texts = defaultdict(list)
    for contrast in CONTRASTS:
        if contrast["metric"] == BITS:
            texts[LABELS[row_of(contrast)]] += contrast.values()
    for line in (*read_pack("../study/horizon.csv"), *read_pack("../study/rates.csv")):
        texts[LABELS[line["row"]]] += line.values()
    for line in read_pack("scores.tsv"):
        decimals = DECIMALS_BY_METRIC.get(line["metric"])
        if decimals and line["testset"] == "val":
            label = LABELS.get(line["system"], line["system"])
            texts[label].append(f"{float(line['value']):.{decimals}f}")
    unknown = []
    for line in page.splitlines():
        name, _, cells = line.removeprefix("| ").removeprefix("later: ").partition(" |")
        label = name.partition(" (")[0]
        if label in texts:
            known = NUMBER.findall(" ".join(texts[label]))
            unknown += [(label, number) for number in NUMBER.findall(cells) if number not in known]
    return unknown


def test_each_number_of_a_row_is_in_the_packs_tables_and_a_changed_digit_is_noticed() -> None:
    assert unknown_numbers(PAGE) == []
    assert unknown_numbers(PAGE.replace("+0.172 | as", "+0.173 | as")) == [("h 32", "+0.173")]
    assert unknown_numbers(PAGE.replace(" 37.13, ", " 37.31, ")) == [("d_model 1024", "37.31")]


def test_the_pages_have_each_answer_and_their_counts() -> None:
    for contrast in ANSWERED:
        answer, *moving = contrast["answer"].split("; still ")
        label, bleu = LABELS[row_of(contrast)], BLEU_BY_ROW[row_of(contrast)]
        assert re.search(rf"\| {label} \| \S+ \| \S+ \| {', '.join([answer, *moving])} \|", PAGE)
        if answer == "as printed":
            whole = f" in the {len(readings_of_all_rows())} readings that were made for all rows"
            differs = differs_in_bits(row_of(contrast))
            answer += ", not in every reading in bits" if differs else whole
        (line,) = re.findall(rf"^\| {answer} \| (.*)", PAGE, re.M)
        assert f"{label} {effect_of(contrast):+.2f}" in line
        assert f"{effect_of(bleu):+.1f}" in line.rpartition(" | ")[2]
    assert f"{answer_counts()}.[^older]" in PAGE
    assert f"bits: {answer_counts()}. Diamond" in README_TEXT
    calls = [contrast["call"] for contrast in ANSWERED]
    corrected = [contrast["call_holm"] for contrast in ANSWERED].count("holds here")
    in_bleu = [BLEU_BY_ROW[row_of(contrast)]["call"] for contrast in ANSWERED].count("holds here")
    footnote = (
        f"[^older]: By the older rule, of decision 0009: {calls.count('holds here')} hold,"
        f" {calls.count('reversed')} reversed,"
        f" {sum(call.startswith('too close') for call in calls)} too close to call; after Holm's"
        f" correction {corrected} hold. In BLEU {in_bleu} hold.\n"
    )
    assert footnote in PAGE
    assert len(PAGE.encode()) <= MAX_PAGE_BYTES


def answer_counts() -> str:
    """Return how many contrasts have each answer, as both pages print it."""
    answers = Counter(contrast["answer"].partition(";")[0] for contrast in ANSWERED)
    names = ("as printed", "differs", "absent", "too small to tell")
    assert sum(answers[name] for name in names) == len(ANSWERED)
    return ", ".join(f"{answers[name]} {name}" for name in names)


def differs_in_bits(row: str) -> bool:
    """Return whether a reading in bits gives a row another direction; the file marks it by a star."""
    readings = read_pack("../study/readings.csv")
    return any("*" in line[row] for line in readings if not line["reading"].startswith("BLEU"))


def readings_of_all_rows() -> list[dict[str, str]]:
    """Return the tested readings that have a number for each answered contrast."""
    rows = [row_of(contrast) for contrast in ANSWERED]
    readings = []
    for line in read_pack("../study/readings.csv"):
        if line["num_other"] != "not counted" and all(line[row] for row in rows):
            readings.append(line)
    return readings


def plain(text: str) -> str:
    """Return a cell of the pack as the pages write it: +- in ASCII, without marks."""
    return re.sub(r" \[.\]", "", text).replace("\u00b1", "+-")


def test_longer_trainings_have_three_readings_with_intervals_and_say_that_they_over_fit() -> None:
    lines = {(line["row"], line["kind"]): line for line in read_pack("../study/horizon.csv")}
    model, big = (lines[row, "confirmatory"] for row in ("table3_c_dmodel1024", "big"))
    frame = make_frame(gather_from_records("multi30k", [PACK.parent]).results)
    estimates = {}
    for contrast in compare_at_horizon(long_runs(frame)):
        estimate = contrast.estimate("bits_val")
        assert estimate is not None
        assert f"16,000 updates have {estimate.degrees_of_freedom} degrees of freedom" in TEXT
        estimates[contrast.system, contrast.kind] = estimate
    last = estimates["table3_c_dmodel1024", "confirmatory"]
    shown = f"{last.difference:+.3f} +- {last.reach:.3f}"
    assert f"at the last update: {shown} (predicted {model['predicted']})" in TEXT
    assert f"best validation it leads: {plain(model['best'])}." in TEXT
    on_dev, on_2016, on_2017 = (
        plain(model[f"bleu_{testset}"])
        for testset in ("val", "test_2016_flickr", "test_2017_flickr")
    )
    assert f"{on_dev} on dev, {on_2016} on test_2016 and {on_2017} on test_2017" in TEXT
    own, base = model["training_bits"].split("; ")
    assert f"by heart: {own} bits on training batches, base {base}." in TEXT
    difference, low, high = (float(number) for number in NUMBER.findall(big["ours"])[:3])
    shown = f"{difference:+.2f} bits ({low:+.2f} to {high:+.2f}; predicted {big['predicted']})"
    assert f"big still leads: {shown}" in TEXT


def test_one_head_and_the_effect_of_d_k_are_those_of_the_tables_of_heads() -> None:
    fresh = {line["contrast"]: line for line in read_pack("../attention/multi30k/tables/heads.csv")}
    for contrast, found, answer in (
        (
            "cross_h8_dk32 minus base",
            "h 8 with d_k 32 has {} bits (predicted",
            "lower, within 0.05",
        ),
        ("cross_h4_dk16 minus base", "h 4 with base's d_k {} (predicted not lower;", "higher"),
        ("table3_a_h4 minus base", "h 4 with d_k 32 {}.", "lower"),
        ("table3_a_h1 minus table3_a_h4", "h 1 minus h 4 is {} (", "higher"),
        (
            "table3_a_h1 minus base",
            "h 1 minus base is {}, higher but within",
            "higher, within 0.05",
        ),
    ):
        line = fresh[contrast]
        assert found.format(plain(line["difference"]).partition(" [")[0]) in TEXT
        assert line["answer"] == answer
    for contrast in (
        "cross_h8_dk32 minus base",
        "cross_h4_dk16 minus base",
        "table3_a_h1 minus table3_a_h4",
    ):
        p_of_difference = fresh[contrast]["holm"].partition(";")[0]
        assert f"{p_of_difference})" in TEXT or f"; {p_of_difference};" in TEXT


def listed_by_answer(suffix: str = "") -> dict[str, str]:
    """Return the systems with each answer, with their differences in bits, as the page lists them:
    by the rule of decision 0013, or without batch norm (`suffix`).
    """
    systems = defaultdict(list)
    for line in read_pack("../study/model_readings.csv"):
        if line[f"answer{suffix}"]:
            difference = line[f"ours{suffix}"].split()[0]
            systems[line[f"answer{suffix}"]].append(f"{name_of_key(line['system'])} {difference}")
    return {answer: ", ".join(names) for answer, names in systems.items()}


def test_the_other_interpretations_have_the_answers_of_their_tables() -> None:
    begin = "**Other interpretations of the paper's model**"
    (paragraph,) = (part for part in PAGE.split("\n\n") if part.startswith(begin))
    by_rule, _, without = " ".join(paragraph.split()).partition("Without batch norm")
    lines = read_pack("../attention/multi30k/tables/model_readings.csv")
    table = {line["system"]: line for line in lines}
    for line in read_pack("../study/model_readings.csv"):
        assert line["ours"] == table[line["system"]]["difference"].partition(" [")[0]
        assert line["answer"] == table[line["system"]]["answer"]
    answers = listed_by_answer()
    del answers["undecided"]
    num_undecided = sum(line["answer"] == "undecided" for line in table.values())
    assert f"undecided the other {num_undecided}." in by_rule
    for answer, systems in answers.items():
        assert f"{answer} {systems}" in by_rule
    exploratory = listed_by_answer("_without_batch_norm")
    of_others = [float(number) for number in NUMBER.findall(exploratory.pop("undecided"))]
    shown = f"undecided the other {len(of_others)} ({min(of_others):+.3f} to {max(of_others):+.3f})"
    assert shown in without
    for answer, systems in exploratory.items():
        assert f"{answer} {systems}" in without
    for text, column in ((by_rule, "ours"), (without, "ours_without_batch_norm")):
        lines = read_pack("../study/model_readings.csv")
        reaches = [line[column].split()[2] for line in lines if line[column]]
        assert f"(+- {statistics.mode(reaches)}" in text
    low, high = sorted(float(bits) for bits in table["batch_norm"]["bits"].split(", "))
    assert f"batch norm differ by {high - low:.2f} bits" in by_rule


def test_the_picture_says_in_shape_and_word_whether_its_interval_includes_0() -> None:
    marks = read_pack("picture.tsv")
    assert len(marks) == 15
    for mark in marks:
        low, high = float(mark["low"]), float(mark["high"])
        includes_0 = low <= 0 <= high
        assert includes_0 == (mark["answer"] in ("absent", "too small to tell"))
        if mark["answer"] == "as printed":
            assert float(mark["printed"]) * float(mark["ours"]) > 0
    counts = Counter(mark["answer"] for mark in marks)
    assert f"{counts['as printed']} of the paper's 15 conclusions" in README_TEXT


def test_the_first_paragraph_says_what_is_missing() -> None:
    first = " ".join(PAGE.split("\n\n")[1].split())
    rows = read_scale(CONFIG_FOLDER / "attention.yaml").read_rows()
    num_asked = sum(len(row.seeds) for row in rows)
    num_finished = 0
    for row in rows:
        for seed in row.seeds:
            num_finished += exists(train_record(ATTENTION, "multi30k", CORPUS, row.system, seed))
    is_ended = [
        exists(train_record(ATTENTION, "multi30k", CORPUS, system, seed))
        for system, seed in RECURRENCE.trainings
    ]
    assert ("attention needs fewer bits" in README) == all(is_ended)
    assert ("attention needs fewer bits than recurrence and convolution" in first) == all(is_ended)
    assert num_finished == num_asked
    assert f"All {num_asked} trainings of [decision 0013]" in first
    readme = (PACK / "README.md").read_text(encoding="utf-8")
    num_runs = int(re.findall(r"(\d+) finished trainings", readme)[0])
    missing = re.findall(r"^- (\S+) (\S+), seeds? ([\d, ]+)$", readme, re.M)
    num_missing = sum(len(seeds.split(", ")) for _, _, seeds in missing)
    num_asked = num_runs + num_missing
    assert f"Of the {num_asked} trainings of Table 3 (decisions 0009 and 0012)" in first
    assert f"{num_missing} are missing" in first
    labels = {"table3_d_pdrop02": "P_drop 0.2", "table3_d_els02": "eps_ls 0.2"} | LABELS
    single = [labels[system] for _, system, seeds in missing if seeds == "6"]
    assert f"seed 6 of {', '.join(single[:-1])} and {single[-1]}, and two of En-Fr big" in first


def test_base_updates_at_most_as_often_as_the_page_of_checks_says() -> None:
    fastest, medians = 0.0, []
    for path in glob(PACK, "runs/multi30k_en_de-*base-seed*/train.log.xz"):
        with open_unpacked(path) as lines:
            text = lines.read().decode("utf-8")
        rates = [float(rate) for rate in re.findall(r'"ups": "([\d.]+)"', text)]
        fastest = max(fastest, *rates)
        medians.append(statistics.median(rates))
    checks = (CHECKOUT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert f"base makes at most {fastest:.1f} updates a second" in checks
    assert f"(medians of a run: {min(medians):.1f} to {max(medians):.1f})" in checks


def test_the_page_has_each_reading_with_its_reach_and_other_directions() -> None:
    for line in read_pack("../study/readings.csv"):
        cells = {LABELS[row]: text for row, text in line.items() if row in LABELS and text}
        reach = statistics.median_low(float(text.split()[2]) for text in cells.values())
        shown = f"{reach:.{2 if line['reading'].startswith('BLEU') else 3}f}"
        others = ", ".join(label for label, text in cells.items() if "*" in text)
        if others:
            assert f"| {line['reading']} | {shown} | {others} |" in PAGE
        elif line["num_other"] == "0" and not line["reading"].startswith("without"):
            assert f"{line['reading']} ({shown})" in PAGE


def test_the_reasons_and_limits_follow_from_the_pack() -> None:
    """Effects on the three texts are in units of base's bits on dev."""
    assert "53 finished trainings" in (PACK / "README.md").read_text(encoding="utf-8")
    bits = {}
    for line in read_pack("summary.tsv"):
        if line["metric"] == BITS and line["average"] == "last1":
            bits[line["system"], line["testset"]] = float(line["mean"])
    variances = []
    for contrast in ANSWERED:
        effects = []
        for testset in ("val", "test_2016_flickr", "test_2017_flickr"):
            effect = bits[row_of(contrast), testset] - bits["base", testset]
            effects.append(effect * bits["base", "val"] / bits["base", testset])
        variances.append(statistics.variance(effects))
    scatter = math.sqrt(statistics.mean(variances))
    both = stats.t.ppf(0.975, 20) * math.hypot(0.0158 * math.sqrt(1 / 2 + 1 / 6), scatter)
    assert f"an effect scatters by {scatter:.3f} bits: seeds and sentences together" in PAGE
    assert f"together reach {both:.3f}" in PAGE
    train = read_record(PACK / "train" / CORPUS / "base" / "seed5.json", TrainRecord)
    corpus = read_record(PACK / "binarize" / CORPUS / "record.json", BinarizedCorpus)
    ratio = train.num_parameters / corpus.num_tokens_by_split_by_language["train"]["de"]
    first_screen = PAGE[: PAGE.index("| answer |")]
    assert f"Base has {ratio:.1f} parameters for each token of its training text" in first_screen
    (answers,) = re.findall(r"^\| answer \|(?:.*\n)+?\n", PAGE, re.M)
    for contrast in ANSWERED:
        shown = re.escape(f"{LABELS[row_of(contrast)]} {effect_of(contrast):+.2f}")
        is_marked = re.search(rf"{shown} \([^)]*moving\)", answers) is not None
        assert is_marked == contrast["answer"].endswith("moving")


def test_base_falls_at_the_end_and_is_best_at_the_printed_rate() -> None:
    frame = make_frame(gather_from_records("multi30k", [PACK.parent]).results)
    runs = [run.bits_by_update for run in frame.runs_by_system[CORPUS, "base"]]
    fall = statistics.mean(run[6_400] - run[8_000] for run in runs)
    assert f"Base itself still falls by {fall:.3f} bits in the last fifth" in PAGE
    printed = statistics.mean(run[4_000] for run in runs)
    low, high = (line["bits"] for line in read_pack("../rates/multi30k.csv")[:2])
    assert f"| base itself | {low} | {printed:.3f} | {float(high):.3f} | |" in PAGE


def test_two_anomalies_are_explained_by_what_the_pack_has() -> None:
    lengths = {}
    for seed in (5, 6):
        path = PACK / "decode" / CORPUS / "table3_c_dmodel256" / f"seed{seed}" / "last1"
        with open_unpacked(path / "val.txt.xz") as lines:
            lengths[seed] = [len(line.split()) for line in lines]
    short = {seed: sum(length <= 3 for length in some) for seed, some in lengths.items()}
    assert f"{short[6]} of its {len(lengths[6]):,} translations have at most three words" in PAGE
    assert f"(seed 5: {short[5]}), and {lengths[6].count(0)} are empty" in PAGE
    path = PACK / "average" / CORPUS / "big" / "seed5" / "last20.json"
    first, *_, last = read_record(path, CheckpointRecord).averaged_updates
    share = 100 * (last - first) / last
    assert f"covers updates {first:,} to {last:,}, {share:.0f} % of its run" in PAGE
    (averages,) = [line for line in CONTRASTS if line["statement"] == "big beats base on En-De"]
    assert f"{effect_of(averages):+.2f} +- {averages['reach']} by averages" in PAGE
    last_checkpoints = BLEU_BY_ROW["big"]["on_test_2016_flickr"].replace("±", "+-")
    assert f"is {last_checkpoints} BLEU by last checkpoints" in PAGE


@pytest.mark.parametrize(
    ("noise", "size", "shown"),
    [
        *((noise, "smallest_bits", f"bits | {noise.sd:.4f}") for noise in bits_noises()),
        *((noise, "smallest_bleu", f"BLEU | {noise.sd:.2f}") for noise in bleu_noises()),
    ],
)
def test_printed_differences_are_counted_next_to_seed_noise(
    noise: Noise, size: str, shown: str
) -> None:
    sizes = [getattr(difference, size) for difference in printed_differences()]
    plain, corrected = noise.reach(), noise.reach(len(sizes))
    counts = f"{sum(s > plain for s in sizes)}; {sum(s > corrected for s in sizes)}"
    assert f"| {noise.name}, {shown} (df {noise.degrees_of_freedom}) | {counts} |" in RULES_PAGE


def test_recurrence_and_convolution_have_the_numbers_of_their_pack() -> None:
    base, lstm, fconv = read_pack("../attention/multi30k/tables/recurrence.csv")
    begin = "**Attention, recurrence, convolution**"
    (paragraph,) = (part for part in PAGE.split("\n\n") if part.startswith(begin))
    printed = NUMBER.findall(" ".join(paragraph.partition("recurrence.md)):")[2].split()))
    found = []
    for row in (lstm, fconv):
        found += NUMBER.findall(row["difference"].removeprefix("+"))
        found += NUMBER.findall(row["holm"])
    for row in (base, lstm, fconv):
        found += NUMBER.findall(row["bleu_dev"])
    seconds = read_seconds_an_update()
    for system in ("lstm", "fconv"):
        ratios = [own / its for own, its in zip(seconds[system], seconds["base"], strict=True)]
        found.append(f"{statistics.median(ratios):.2f}")
    kit_table = (Path(__file__).parents[1] / "gpu/results/h200.md").read_text(encoding="utf-8")
    # Two runs of the kit: the page has the smallest and the largest ratio.
    on_gpu: dict[str, list[float]] = {}
    for system, value in re.findall(r"update of (\w+), fp32, .* \| ([\d.]+) s", kit_table):
        on_gpu.setdefault(system, []).append(float(value))
    for system in ("lstm", "fconv"):
        ratios = [own / its for own, its in zip(on_gpu[system], on_gpu["base"], strict=True)]
        found += [f"{ratio:.2f}" for ratio in sorted(ratios)]
    assert printed == found
    assert [row["answer"] for row in (lstm, fconv)] == ["higher", "higher"]
    reached = [int(row["updates"].removeprefix("reached by ")[0]) for row in (lstm, fconv)]
    assert reached == [0, 0]
    for row, of in ((lstm, "an LSTM"), (fconv, "a convolutional model")):
        difference, reach = NUMBER.findall(row["difference"])
        assert f"than {of} ({difference.lstrip('+')} +- {reach})" in README_TEXT
    # "no difference": each interval of BLEU overlaps the value of base
    for row in (lstm, fconv):
        value, reach = (float(number) for number in NUMBER.findall(row["bleu_dev"]))
        assert abs(value - float(NUMBER.findall(base["bleu_dev"])[0])) < reach
