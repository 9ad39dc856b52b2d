"""docs/claims.md has the answers of the shipped tables at Multi30k's scale, and says of each open
statement what would answer it.
"""

import csv
import re
import statistics
from pathlib import Path

from analysis.conclusions.fresh import HEADS, MODEL_READINGS, RECURRENCE, read_seconds_an_update

CHECKOUT = Path(__file__).resolve().parents[2]
MEASURED = CHECKOUT / "paper_tables" / "measured"
PAGE = (CHECKOUT / "docs" / "claims.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([VX]-[0-9]+[a-z]?) \| .+ \| ([a-z* ]+) \| (.+) \|$", re.MULTILINE)
FRESH = re.compile(
    r"table `(recurrence|heads|model_readings)` compares the system `(\w+)` with `(\w+)`\."
    r" Expected bits: (higher|lower|equal within 0\.05)\. Found: (.+?)(?:\. |$)"
)
SPEED = re.compile(
    r"an update of `(\w+)` takes ([\d.]+) times the CPU seconds of `base` on one thread"
    r" \(from ([\d.]+) to ([\d.]+) in 5 rounds"
)
CONCLUSION = re.compile(
    r"table `conclusions` compares `(\w+)` with `base` in (bits|BLEU)\. Result: (.+?)(?:\. |$)"
)
FAMILY_BY_TABLE = {"recurrence": RECURRENCE, "heads": HEADS, "model_readings": MODEL_READINGS}
OPEN_WORDS = ("An answer needs", "undecided")


def answer_on_page(expected: str, found: str) -> str:
    """Return what the page says of a statement that expects an answer, if a table has `found`."""
    if found in ("", "undecided") or "did not start" in found:
        return "open"
    found, _, _ = found.partition(" (")
    is_expected = found.startswith(expected)
    if expected.startswith("equal"):
        is_expected = found.endswith("within 0.05")
    return "holds" if is_expected else "does not hold"


def shipped_answers() -> dict[tuple[str, str, str], str]:
    """Return the answers of decision 0013 in the shipped tables, as far as there are any."""
    answers = {}
    for table, family in FAMILY_BY_TABLE.items():
        path = MEASURED / "attention" / "multi30k" / "tables" / f"{table}.csv"
        if not path.exists():
            continue
        with path.open(encoding="utf-8", newline="") as lines:
            found = {
                next(iter(line.values())): line.get("answer", "") for line in csv.DictReader(lines)
            }
        for contrast in family.contrasts:
            name = contrast.name if table == "heads" else contrast.system
            answers[table, contrast.system, contrast.control] = found.get(name, "")
    return answers


def test_the_statements_have_the_answers_of_decision_0013() -> None:
    answers, wrong = shipped_answers(), []
    for ident, answer, by in ROW.findall(PAGE):
        match = FRESH.search(by)
        if match is None:
            continue
        table, system, control, expected, shown = match.groups()
        found = answers.get((table, system, control), "")
        is_right = answer.strip("*") == answer_on_page(expected, found)
        if not is_right or shown.strip() != found:
            wrong.append(ident)
    assert wrong == []


def test_every_statement_of_decision_0013_names_one_of_its_contrasts() -> None:
    named = [FRESH.search(by) for _, _, by in ROW.findall(PAGE)]
    contrasts = set()
    for table, family in FAMILY_BY_TABLE.items():
        contrasts |= {(table, contrast.system, contrast.control) for contrast in family.contrasts}
    found = {match.groups()[:3] for match in named if match}
    assert len(found) >= 15
    assert found <= contrasts


def test_the_statements_have_the_answers_of_decisions_0009_and_0012() -> None:
    path = MEASURED / "multi30k" / "tables" / "conclusions.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        contrasts = {(line["rows"], line["metric"]): line for line in csv.DictReader(lines)}
    checked = 0
    for _, answer, by in ROW.findall(PAGE):
        match = CONCLUSION.search(by)
        if match is None:
            continue
        system, unit, shown = match.groups()
        metric = "bits_per_subword" if unit == "bits" else "bleu_tok_compound_split"
        line = contrasts[f"{system} minus base", metric]
        if unit == "bits":
            found = line["answer"].partition(";")[0]
            assert shown == found
            assert answer.strip("*") == {"absent": "does not hold", "as printed": "holds"}[found]
        else:
            assert shown == f"{line['ours'].split()[0]} +- {line['reach']}"
            assert (answer, line["call"].partition(";")[0]) == ("open", "too close to call")
        checked += 1
    assert checked == 3


def test_each_open_statement_says_what_would_answer_it() -> None:
    rows = ROW.findall(PAGE)
    silent = [ident for ident, answer, by in rows if answer == "open"
              and not any(words in by for words in OPEN_WORDS)]  # fmt: skip
    assert silent == []


def test_the_statements_on_speed_have_the_numbers_of_the_measurement() -> None:
    """A statement holds if base was faster in each round, and does not hold if it was slower."""
    seconds = read_seconds_an_update()
    shown = [(answer, *match.groups()) for _, answer, by in ROW.findall(PAGE)
             if (match := SPEED.search(by))]  # fmt: skip
    assert len(shown) == 3
    for answer, system, median, least, most in shown:
        ratios = [own / base for own, base in zip(seconds[system], seconds["base"], strict=True)]
        found = (statistics.median(ratios), min(ratios), max(ratios))
        assert (median, least, most) == tuple(f"{ratio:.2f}" for ratio in found)
        assert len(ratios) == 5
        if answer == "holds":
            assert min(ratios) > 1
        else:
            assert answer == "**does not hold**"
            assert max(ratios) < 1
