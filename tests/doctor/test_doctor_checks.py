"""Each check of the doctor shown failing once, on the clean run's evidence with one thing in it
changed.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from aiayn.logs.evidence import LoggedTraining
from aiayn.logs.types import TrainingLog
from aiayn.scoring.outputs.line_match import share_out_of_order
from aiayn.spec.system import read_corpus, read_system
from analysis.doctor.check_data import check_data, check_vocabulary
from analysis.doctor.check_scores import (
    check_definition,
    check_reference_order,
    check_testset,
)
from analysis.doctor.check_search import check_average, check_lengths
from analysis.doctor.check_settings import check_batch, check_model
from analysis.doctor.check_training import check_divergence
from analysis.doctor.collect import collect_folder
from analysis.doctor.costs import rank
from analysis.doctor.diagnose import CHECKS, diagnose
from analysis.doctor.types import Answer, Case, Claim, Reported
from tests.doctor.fixtures import assemble

LINES = ("Der Mann sieht das Haus.", "Eine Frau liest heute.", "Wir gehen zum Fluss, weil er ruft.")


def count_words(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return a score that is quick to check: the share of lines that are right, with and without
    case.
    """
    pairs = list(zip(hypotheses, references, strict=True))
    right = 100 * np.mean([one == other for one, other in pairs])
    lower = 100 * np.mean([one.lower() == other.lower() for one, other in pairs])
    return {"bleu_sacre_13a": float(right), "bleu_sacre_13a_lc": float(lower)}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = assemble("clean", tmp_path_factory.mktemp("doctor") / "clean")
    system = read_system("base", "demo")
    averages = {"dev": frozenset({"last1"}), "test": frozenset({"last5"})}
    corpus = read_corpus("demo_en_de")
    claim = Claim("clean", "demo", "base", corpus, system.training, system.decoding, averages)
    return collect_folder(folder, claim, count_words, hypotheses_path=None, references_path=None)


def trained_of(case: Case) -> tuple[LoggedTraining, TrainingLog]:
    assert case.training is not None
    return case.training, case.training.log


def with_log(case: Case, **changes: Any) -> Case:
    training, log = trained_of(case)
    return replace(case, training=replace(training, log=replace(log, **changes)))


def with_symbols(case: Case, **changes: Any) -> Case:
    training, _ = trained_of(case)
    return replace(case, training=replace(training, symbols=training.symbols | changes))


def with_tokens(case: Case, ratio: float, last_update: int) -> Case:
    """Return a case whose target tokens an update are multiplied by `ratio`."""
    _, log = trained_of(case)
    epochs = [
        replace(one, target_tokens_per_update=ratio * (one.target_tokens_per_update or 0))
        for one in log.epochs
    ]
    return with_log(case, epochs=tuple(epochs), last_update=last_update)


def with_last_bits(case: Case, bits: float) -> Case:
    """Return a case whose last validation is at `bits` a subword."""
    *validations, last = trained_of(case)[1].validations
    return with_log(case, validations=(*validations, replace(last, nll_bits=bits)))


def of_wmt14(case: Case) -> Case:
    """Return a case that claims to be of the paper's corpus, without a data-bin."""
    return replace(case, claim=replace(case.claim, corpus=read_corpus("wmt14_en_de")), data=None)


def with_translation(case: Case, **changes: Any) -> Case:
    return replace(case, translations=(replace(case.translations[0], **changes),))


def small(case: Case, **changes: Any) -> Case:
    """Return a case of three lines, without a data-bin."""
    changes = {"lines": LINES, "references": LINES, "reported": (), **changes}
    return with_translation(replace(case, data=None), **changes)


def titles(outcome: Answer) -> list[str]:
    return [finding.title for finding in outcome.findings]


def test_a_check_without_its_evidence_says_so_and_finds_nothing(clean: Case) -> None:
    empty = Case(clean.claim, None, None, (), count_words)
    assert [outcome.check for outcome in diagnose(empty).outcomes] == list(CHECKS)
    for check in CHECKS.values():
        outcome = check(empty)
        assert outcome.missing
        assert outcome.findings == ()


def test_counts_that_differ_between_log_and_data_bin_are_found(clean: Case) -> None:
    (finding,) = check_data(with_log(clean, num_pairs_by_split={"train": 11_000})).findings
    assert (finding.evidence[0].found, finding.evidence[0].expected) == (
        "11,000",
        "12,000, as in the data-bin",
    )


def test_the_papers_counts_are_expected_of_wmt14_alone(clean: Case) -> None:
    checks = (check_data, check_vocabulary, check_batch)
    expected = [
        {one.expected for one in check(of_wmt14(clean)).findings[0].evidence} for check in checks
    ]
    assert "about 4,500,000 (section 5.1)" in expected[0]
    assert "32,000 to 45,000 (section 5.1)" in expected[1]
    assert "about 25,000" in expected[2]
    assert [check(clean).findings for check in checks] == [(), (), ()]


def test_a_text_without_ends_of_sentences_is_found_with_its_published_cost(
    clean: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clean.data is not None
    side = clean.data.sides_by_split["train"][1]
    monkeypatch.setattr(side, "lengths", side.lengths - 1)
    (finding,) = check_vocabulary(clean).findings
    assert (finding.evidence[0].what, finding.published_rank) == (
        "lines without their end of sentence",
        "1a",
    )


def test_a_text_of_unknown_symbols_is_found(clean: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clean.data is not None
    side = clean.data.sides_by_split["train"][1]
    monkeypatch.setattr(side, "_tokens", np.full_like(side._tokens, 3))
    assert check_vocabulary(clean).findings[0].evidence[-1].what == "symbols that are <unk>"


def test_a_last_epoch_of_two_updates_weighs_as_two_updates(clean: Case) -> None:
    epochs = trained_of(clean)[1].epochs
    short = replace(epochs[-1], update=epochs[-1].update + 2, target_tokens_per_update=10.0)
    assert check_batch(with_log(clean, epochs=(*epochs, short))).findings == ()


def test_one_wrong_rate_in_two_hundred_is_not_another_schedule(clean: Case) -> None:
    rates = trained_of(clean)[1].rates
    first, *others = rates
    for changed, num_findings in (
        ([replace(first, rate=1.0), *others], 0),
        ([replace(rate, rate=0.3 * rate.rate) for rate in rates], 1),
    ):
        findings = check_batch(with_log(clean, rates=tuple(changed))).findings
        assert [finding.what for finding in findings] == ["schedule"] * num_findings


@pytest.mark.parametrize(
    ("title", "symbol", "value"),
    [
        ("Normalised before each sub-layer, not after it", "norm_order", "pre"),
        ("Another dropout", "p_drop", 0.0),
        ("Another model or optimizer: attention dropout", "p_drop_attention", 0.1),
        ("Another label smoothing", "eps_ls", 0.0),
        ("Another model or optimizer: layers", "num_layers", 2),
        ("Another model or optimizer: Adam epsilon", "adam_epsilon", 1e-7),
        (
            "Another model or optimizer: one matrix for embeddings and output",
            "tied_embeddings",
            False,
        ),
    ],
)
def test_a_symbol_that_differs_is_found_under_its_own_name(
    clean: Case, title: str, symbol: str, value: Any
) -> None:
    assert titles(check_model(with_symbols(clean, **{symbol: value}))) == [title]
    assert check_model(clean).findings == ()


def test_a_finding_names_its_quantity_and_its_size(clean: Case) -> None:
    (finding,) = check_model(with_symbols(clean, p_drop=0.3)).findings
    assert (finding.what, finding.amount, finding.published_rank) == ("p_drop", 0.3, "7")
    many = check_model(with_symbols(clean, num_heads=1, d_k=32, d_v=32, d_ff=1)).findings
    assert {one.what for one in many} == {"num_heads", "d_ff"}  # d_k and d_v follow from the heads


def test_a_change_of_the_encoder_alone_has_no_published_cost(clean: Case) -> None:
    (finding,) = check_model(with_symbols(clean, norm_order="pre and post")).findings
    assert (finding.title, finding.what, finding.published_rank) == (
        "Another model or optimizer: norm order",
        "norm_order of one side",
        "",
    )


def test_a_harmless_difference_is_named_and_is_no_finding(clean: Case) -> None:
    answer = check_model(with_symbols(clean, adam_epsilon=1e-8))
    assert answer.findings == ()
    assert "harmless: Adam epsilon 1e-08, the system's 1e-09" in answer.seen


def test_a_log_without_its_gpus_has_no_batch_rate_and_updates(clean: Case) -> None:
    arguments = {
        key: value
        for key, value in trained_of(clean)[1].arguments.items()
        if key != "distributed_world_size"
    }
    answer = check_batch(with_log(clean, arguments=arguments, num_gpus=None))
    assert answer.findings == ()
    assert "without which a batch and its rate cannot be judged" in answer.missing


def test_a_training_is_whole_that_its_own_patience_ended(clean: Case) -> None:
    """The training stopped early by the system's own `patience_epochs`, not by another patience."""
    patient = replace(clean.claim, training=replace(clean.claim.training, patience_epochs=10))
    short = {"last_update": 350, "is_stopped_early": True, "arguments": {"patience": 10}}

    def found(claim: Claim, **changes: object) -> list[str]:
        return titles(check_batch(replace(with_log(clean, **short | changes), claim=claim)))

    assert found(patient) == []
    assert found(patient, is_stopped_early=False) == ["Trained for 50% of the updates"]
    assert found(patient, arguments={"patience": 3}) == ["Trained for 50% of the updates"]
    assert found(clean.claim) == ["Trained for 50% of the updates"]
    outcome = check_batch(replace(with_log(clean, **short), claim=patient))
    assert outcome.seen.endswith(": equal (the spec's patience of 10 epochs ended it)")


def test_updates_count_with_their_tokens(clean: Case) -> None:
    def found(ratio: float, last_update: int) -> list[tuple[str, str]]:
        return [
            (one.what, one.published_rank)
            for one in check_batch(with_tokens(clean, ratio, last_update)).findings
        ]

    assert titles(check_batch(with_tokens(clean, 1.0, 350))) == ["Trained for 50% of the updates"]
    assert found(1.0, 2100) == [("updates", "A5")]
    assert found(22.0, 63) == [("tokens_per_update", "A5")]  # 9 % of the updates, twice the tokens
    assert found(0.1, 700) == [("tokens_per_update", "3")]  # a small batch, and not too few updates


def test_a_batch_of_as_many_tokens_is_neither_smaller_nor_larger(clean: Case) -> None:
    for ratio, title in (
        (1.17, "The arguments state another batch than the system's, the printed tokens an update"),
        (0.96, "The effective batch is 1.2 times smaller than the system's"),
    ):
        case = with_symbols(with_tokens(clean, ratio, 700), tokens_per_update=1000)
        (found,) = titles(check_batch(case))
        assert found.startswith(title)


def test_a_training_that_falls_apart_is_found(clean: Case) -> None:
    assert check_divergence(clean).findings == ()
    for bits in (12.0, float("nan")):
        (finding,) = check_divergence(with_last_bits(clean, bits)).findings
        assert finding.title.startswith("The training diverged after update ")


def test_of_two_averages_of_a_test_set_one_must_be_the_tables(clean: Case) -> None:
    single = replace(clean.translations[0], average="last1")
    assert check_average(replace(clean, translations=(single,))).findings
    assert not check_average(replace(clean, translations=(single, clean.translations[0]))).findings


ANIMALS = tuple(
    f"{name} sieht {number} Tiere im Wald {number + 7}"
    for number, name in enumerate("abcdefghijklmnopqrstuvwxyz" * 2)
)


def test_a_symptom_ranks_after_causes_and_is_found_only_where_bounds_are_published(
    clean: Case,
) -> None:
    short = small(clean, lines=tuple(line[:9] for line in LINES))
    assert not check_lengths(short).findings
    symptoms = check_lengths(of_wmt14(short)).findings
    cause = check_batch(with_log(clean, last_update=250)).findings
    assert [one.check for one in rank([*symptoms, *cause])] == ["batch", "lengths"]


def test_translations_that_end_after_a_few_words_are_found(clean: Case) -> None:
    lines = [" ".join(line.split()[: 3 if place < 5 else 20]) for place, line in enumerate(ANIMALS)]
    (finding,) = check_lengths(small(clean, lines=tuple(lines), references=ANIMALS)).findings
    assert finding.title == "10% of the translations end after at most 3 words"
    lines[0] = ANIMALS[0]
    assert not check_lengths(small(clean, lines=tuple(lines), references=ANIMALS)).findings


def test_a_bleu_near_one_is_told_apart_by_what_the_translations_are(clean: Case) -> None:
    assert share_out_of_order(ANIMALS, ANIMALS, np.random.default_rng(1)) == 0.0
    assert check_reference_order(small(clean, lines=ANIMALS, references=ANIMALS)).findings == ()
    few_words = tuple(
        f"{'abcde'[(number + 2) % 5]} sieht {(number + 3) % 5} Tiere" + " im Wald" * (number % 40)
        for number in range(len(ANIMALS))
    )
    generated = {
        "lines": ANIMALS[::-1],
        "source_lines": ANIMALS,
    }  # its H- and T- lines have the same number
    for case, changes, title in (
        (clean, {"lines": ANIMALS[::-1]}, "Translations and references are in different orders"),
        (clean, {"lines": ANIMALS[:1] * len(ANIMALS)}, "Translations repeat themselves: "),
        (
            clean,
            {"lines": few_words},
            "Translations of other sentences than the source's: the model does not read it",
        ),
        (
            with_last_bits(clean, 12.0),
            {"lines": few_words},
            "Translations are of a model that diverged",
        ),
        (clean, generated, "Source and target of the data-bin are not of one sentence"),
    ):
        (finding,) = check_reference_order(small(case, references=ANIMALS, **changes)).findings
        assert finding.title.startswith(title)


def test_other_references_are_distinguished_from_reordered_ones(clean: Case) -> None:
    references = clean.translations[0].references or ()
    other = tuple(hashlib.sha256(line.encode()).hexdigest() for line in references)
    assert titles(check_reference_order(with_translation(clean, references=other))) == [
        "Scored against other references than the test set's"
    ]
    assert titles(check_reference_order(with_translation(clean, references=references[:-1])))
    assert check_reference_order(clean).findings == ()


def test_a_score_that_is_another_definitions_is_named(clean: Case) -> None:
    lines = (LINES[0].lower(), *LINES[1:])
    reported = Reported("score.json", "bleu_sacre_13a", 100.0, "")
    (finding,) = check_definition(small(clean, lines=lines, reported=(reported,))).findings
    assert finding.evidence[0].expected == "66.67; 100.00 is bleu_sacre_13a_lc"
    assert (finding.title, finding.published_rank) == ("Scored without case", "A2")
    assert finding.costs[0].low == pytest.approx(-33.33, abs=0.01)
    right = replace(reported, value=66.67)
    assert not check_definition(small(clean, lines=lines, reported=(right,))).findings


def test_lower_cased_translations_lose_what_a_score_without_case_would_have_more(
    clean: Case,
) -> None:
    lines = tuple(line.lower() for line in LINES)
    (finding,) = check_definition(small(clean, lines=lines)).findings
    assert finding.title.startswith("Translations are lower-cased")
    assert (finding.costs[0].low, finding.published_rank) == (
        100.0,
        "",
    )  # 0 of 3 lines are right, 3 of 3 without case
    (finding,) = check_definition(small(clean, references=lines)).findings
    assert finding.title.startswith("The references are lower-cased")


def test_lower_cased_translations_and_references_of_a_cased_corpus_are_found(clean: Case) -> None:
    lines = tuple(line.lower() for line in clean.translations[0].lines)
    references = tuple(line.lower() for line in clean.translations[0].references or ())
    both = with_translation(clean, lines=lines, references=references, reported=())
    assert titles(check_definition(both)) == ["Scored without case"]


def test_a_part_of_the_test_set_is_found(clean: Case) -> None:
    assert titles(
        check_testset(with_translation(clean, lines=clean.translations[0].lines[:-1]))
    ) == ["Another test set"]
    assert check_testset(clean).findings == ()
