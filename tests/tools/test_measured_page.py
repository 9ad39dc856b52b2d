"""docs/measured.md and README.md: their numbers are those of the shipped pack of Multi30k.

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

from aiayn.packed import open_unpacked
from aiayn.records import BinarizedCorpus, CheckpointRecord, TrainRecord, read_record
from analysis.conclusions.one_run import Noise, bits_noises, bleu_noises, printed_differences
from paper_tables.make_frame import make_frame
from paper_tables.scale_results import gather_from_records

pytestmark = pytest.mark.figures
CHECKOUT = Path(__file__).resolve().parents[2]
PACK = CHECKOUT / "paper_tables" / "measured" / "multi30k"
CORPUS = "multi30k_en_de"
MAX_PAGE_BYTES = 12 * 1024
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
PAGE = (CHECKOUT / "docs" / "measured.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[+-]?\d+\.\d+(?:e-\d+)?")
BITS, BLEU = "bits_per_subword", "bleu_tok_compound_split"
DECIMALS_BY_METRIC = {BITS: 3, "bleu_sacre_13a": 2}


def read_pack(name: str) -> list[dict[str, str]]:
    """Return the lines of a table of the pack."""
    delimiter = "\t" if name.endswith(".tsv") else ","
    with (PACK / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter=delimiter))


LABELS = {line["row"]: line["label"] for line in read_pack("figures/forest_bits.tsv")}
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
    for line in read_pack("tables/horizon.csv"):
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
            differing = re.sub(r"BLEU on \w+|; ", "", contrast["differing"])  # in bits
            answer += ", not in every reading in bits" if differing else " in every reading below"
        (line,) = re.findall(rf"^\| {answer} \| (.*)", PAGE, re.M)
        assert f"{label} {effect_of(contrast):+.2f}" in line
        assert f"{effect_of(bleu):+.1f}" in line.rpartition(" | ")[2]
    answers = Counter(contrast["answer"].partition(";")[0] for contrast in ANSWERED)
    counts = [f"{answers[answer]} {answer}" for answer in ("as printed", "differs", "absent")]
    assert f"bits: {', '.join(counts)}, 1 too small to tell." in README
    bleu_calls = [BLEU_BY_ROW[row_of(contrast)]["call"] for contrast in ANSWERED]
    assert f"BLEU: {bleu_calls.count('holds here')} hold." in README
    calls = [contrast["call"] for contrast in ANSWERED]
    assert f"9: {calls.count('holds here')} hold, {calls.count('reversed here')} reversed" in PAGE
    corrected = [contrast["call_holm"] for contrast in ANSWERED].count("holds here")
    assert f"after Holm's correction {corrected} hold" in PAGE
    assert len(PAGE.encode()) <= MAX_PAGE_BYTES


def test_the_page_has_each_reading_with_its_reach_and_other_directions() -> None:
    for line in read_pack("tables/readings.csv"):
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
    assert "51 finished trainings" in (PACK / "README.md").read_text(encoding="utf-8")
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
    assert f"Base has {ratio:.1f} parameters for each target token" in PAGE
    moving = [LABELS[row_of(line)] for line in ANSWERED if line["answer"].endswith("moving")]
    assert f"of the updates: {', '.join(moving)}.\n" in PAGE


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
    assert f"| {noise.name}, {shown} (df {noise.degrees_of_freedom}) | {counts} |" in PAGE
