"""Trains on a pretended node of GPUs: what ranks compute, what an update asks of a GPU, and what a
stop keeps.

After a change that is meant to change the counts: python -m tests.engine.pretended_counts kernels
"""

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.records import BinarizedCorpus
from aiayn.train.grouping import MEMORY_FRACTION
from aiayn.train.ranks import COLLECTIVE_SECONDS
from tests.engine import pretended_node
from tests.engine.pretended_counts import CSV_PATH, StepCounts, read_csv
from tests.engine.pretended_runs import STOPPED_RUNS, UPDATES

reason = pretended_node.reason_unsupported()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)

ERROR = 1e-5  # relative; the two devices add in other orders
CARD_BYTES = 85_520_809_984


def run(module: str, what: str, *arguments: str) -> dict[str, Any]:
    """Run a module of this folder in a process of its own, and return what it found."""
    command = [sys.executable, "-m", f"tests.engine.{module}", what, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=CSV_PATH.parents[3]
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return msgspec.json.decode(done.stdout.splitlines()[-1])


def run_trainings(
    what: str, tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus
) -> dict[str, Any]:
    """Run trainings on the tiny corpus, and return what they left."""
    record_path = Path(data.folder).parent / "record.json"
    folder = tmp_path_factory.mktemp(what)
    return run("pretended_runs", what, "--folder", str(folder), "--binarized", str(record_path))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> dict[str, Any]:
    """Return what 2 ranks noted of a training in bf16, with dropout."""
    notes = run_trainings("quick", tmp_path_factory, data)
    assert [rank.get("error") for rank in notes["ranks"]] == [None, None]
    return notes


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> dict[str, Any]:
    """Return what trainings of 1 to 16 ranks noted."""
    return run_trainings("node", tmp_path_factory, data)


@pytest.fixture(scope="module")
def steps() -> dict[str, Any]:
    """Return the counts of updates at real sizes."""
    return run("pretended_counts", "steps")


def sentences_by_update(ranks: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Return the sentences of all ranks in each update."""
    by_update: dict[int, list[int]] = collections.defaultdict(list)
    for rank in ranks:
        for update, sentences in rank["sentences"]:
            by_update[update] += sentences
    return {update: sorted(sentences) for update, sentences in sorted(by_update.items())}


def require_each_sentence_once(ranks: list[dict[str, Any]]) -> None:
    """Require that the first updates, until all sentences were seen, show each of them once."""
    by_update = sentences_by_update(ranks)
    assert list(by_update) == list(range(UPDATES))
    num_sentences = 1 + max(max(sentences) for sentences in by_update.values())
    seen: list[int] = []
    for sentences in by_update.values():
        if len(seen) < num_sentences:
            seen += sentences
    assert sorted(seen) == list(range(num_sentences))


def kinds_of_updates(rank: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """Return kernels and waits of a rank's updates, by what else happened in them."""
    updates: list[list[dict[str, Any]]] = []
    for phase in rank["phases"]:
        if phase["phase"] == "update":
            updates.append([])
        if updates:
            updates[-1].append(phase)
    by_kind: dict[str, list[tuple[int, int]]] = collections.defaultdict(list)
    for number, phases in enumerate(updates):
        names = {phase["phase"] for phase in phases} - {"update", "batch", "vote"}
        kind = "first" if number == 0 else "+".join(sorted(names)) or "plain"
        totals = [sum(phase[name] for phase in phases) for name in ("kernels", "waits")]
        by_kind[kind].append((totals[0], totals[1]))
    return by_kind


# Kernels at least and at most, and waits, of each kind of update on rank 0. The first update makes
# Adam's moments. A log line waits twice, for the sums of all ranks; a validation for each of its
# numbers; a checkpoint once.
KINDS = {
    "first": (420, 434, 6),
    "plain": (288, 300, 3),
    "log": (292, 304, 5),
    "epoch+log": (292, 304, 5),
    "checkpoint+log": (292, 304, 6),
    "validation": (650, 680, 42),
    "checkpoint+log+validation": (654, 684, 43),
}


def test_every_kind_of_update_asks_of_the_gpu_what_it_should(quick: dict[str, Any]) -> None:
    counts_by_kind = kinds_of_updates(quick["ranks"][0])
    assert set(counts_by_kind) == set(KINDS)
    for kind, (at_least, at_most, num_waits) in KINDS.items():
        for kernels, waits in counts_by_kind[kind]:
            assert at_least <= kernels <= at_most, (kind, kernels)
            assert waits == num_waits, (kind, waits)


def test_products_of_training_and_validation_have_the_precision(quick: dict[str, Any]) -> None:
    """float16 would need a loss scale. Without autocast a product has float32."""
    types = {"batch": set(), "validation": set(), "update": set()}
    for rank in quick["ranks"]:
        for phase in rank["phases"]:
            types.setdefault(phase["phase"], set()).update(phase["products"])
    assert types["batch"] == types["validation"] == {"bfloat16"}
    assert types["update"] == set()


def test_two_ranks_train_on_their_own_devices_and_end_with_one_model(
    quick: dict[str, Any],
) -> None:
    ranks, record = quick["ranks"], quick["record"]
    assert [rank["device"] for rank in ranks] == [0, 1]
    assert {rank["model_sha256"] for rank in ranks} == {record["tensors_sha256"]}
    assert ranks[0]["losses"] == ranks[1]["losses"]
    assert len(ranks[0]["losses"]) == UPDATES
    assert 1 < ranks[0]["validated"][0] / ranks[0]["validated"][1] < ranks[0]["losses"][0]
    assert ranks[0]["losses"][-1] < 0.9 * ranks[0]["losses"][0]
    require_each_sentence_once(ranks)


def test_only_rank_0_copies_and_writes_checkpoints(quick: dict[str, Any]) -> None:
    copies = [
        [phase["copies"] for phase in rank["phases"] if phase["phase"] == "checkpoint"]
        for rank in quick["ranks"]
    ]
    assert len(copies[0]) == 2
    assert min(copies[0]) > 100
    assert copies[1] == [0, 0]


def test_the_allocators_cache_is_emptied_after_the_first_batch_only(quick: dict[str, Any]) -> None:
    """fairseq does it once. Each time the host waits, and all memory is requested anew."""
    for rank in quick["ranks"]:
        assert [phase["emptied"] for phase in rank["phases"] if phase["emptied"]] == [1]


def test_collectives_of_a_training_outlast_nccls_own_time_out(quick: dict[str, Any]) -> None:
    """Also those of the group that fairseq sums gradients in."""
    for rank in quick["ranks"]:
        assert rank["seconds_by_backend"]["nccl"] == COLLECTIVE_SECONDS


def test_attention_is_not_cudnns_and_the_record_names_its_kernels(quick: dict[str, Any]) -> None:
    for rank in quick["ranks"]:
        assert set(rank["attention"]) == {"masked: efficient", "causal: flash"}
        assert rank["attentions_with_cudnn"] == 0
    kernels = f"masked: efficient, causal: flash; 8 batches joined to 1 ({UPDATES - 1} updates)"
    assert quick["record"]["kernels"] == kernels


RANKS = (2, 8, 16)  # a part of a node, a node, two nodes


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [1, *RANKS])
def test_losses_and_gradients_without_dropout_are_those_of_ranks_on_cpus(
    num_ranks: int, node: dict[str, Any]
) -> None:
    notes = node[f"{num_ranks}fp32"]
    ours, cpus = (notes[name][0]["losses"] for name in ("whole", "cpu"))
    assert len(ours) == UPDATES
    assert ours == pytest.approx(cpus, rel=ERROR)
    assert 0 < notes["gradient_error"] < ERROR
    our_validations, cpus_validations = (notes[name][0]["validated"] for name in ("whole", "cpu"))
    assert our_validations == pytest.approx(cpus_validations, rel=ERROR)
    assert our_validations[1] == node["1fp32"]["whole"][0]["validated"][1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("num_ranks", "precision"), STOPPED_RUNS)
def test_stopped_and_resumed_equals_undisturbed_to_the_bit(
    num_ranks: int, precision: str, node: dict[str, Any]
) -> None:
    """All ranks end with one model, and the optimiser's state is the same, too."""
    notes = node[f"{num_ranks}{precision}"]
    whole, resumed = notes["states"]
    assert whole == resumed
    models = {rank["model_sha256"] for name in ("whole", "resumed") for rank in notes[name]}
    assert len(models) == 1
    for part in (*notes["stopped"], *notes["resumed"]):
        assert 0 < len(part["losses"]) < UPDATES


@pytest.mark.slow
def test_any_number_of_ranks_trains_on_the_same_sentences_in_an_update(
    node: dict[str, Any],
) -> None:
    expected = sentences_by_update(node["1fp32"]["whole"])
    require_each_sentence_once(node["1fp32"]["whole"])
    for num_ranks in RANKS:
        for precision in ("fp32", "bf16"):
            notes = node[f"{num_ranks}{precision}"]
            assert sentences_by_update(notes["whole"]) == expected
            if (num_ranks, precision) in STOPPED_RUNS:
                both = [*notes["stopped"], *notes["resumed"]]
                assert sentences_by_update(both) == expected


@pytest.mark.slow
def test_an_update_of_the_papers_systems_asks_of_a_gpu_what_the_table_says(
    steps: dict[str, Any],
) -> None:
    counts = msgspec.convert(steps["counts"], list[StepCounts])
    assert counts == read_csv(CSV_PATH), (
        f"by python -m tests.engine.pretended_counts kernels; waits: {steps['one rank']['waits']}"
    )


def test_base_in_bf16_needs_few_kernels_and_waits() -> None:
    """What is aimed at: 1,250 kernels for a small batch; on one GPU an update waits once."""
    counts = read_csv(CSV_PATH)
    assert {step.waits_per_update for step in counts if step.num_ranks == 1} == {1}
    base = [step for step in counts if (step.system, step.precision) == ("base", "bf16")]
    assert [step.num_ranks for step in base] == [1, 4, 8]
    for step in base:
        assert 1000 <= step.kernels_per_batch + step.kernels_per_update <= 1250
        assert step.waits_per_update <= (1 if step.num_ranks == 1 else 6)


@pytest.mark.slow
def test_base_in_bf16_fits_and_multiplies_in_bf16(steps: dict[str, Any]) -> None:
    """A whole update in one batch has at most 1,350 kernels, and half of a card's memory."""
    large = msgspec.convert(steps["large"], StepCounts)
    assert large.kernels_per_batch + large.kernels_per_update <= 1350
    for name in ("one rank", "8 ranks", "25,000 tokens"):
        assert set(steps[name]["products"]) == {"bfloat16"}
    assert 0.1 < steps["25,000 tokens"]["peak_bytes"] / (MEMORY_FRACTION * CARD_BYTES) < 1


@pytest.mark.slow
def test_translations_and_perplexity_are_the_cpus(
    tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus
) -> None:
    """cuDNN is off at every attention of both."""
    notes = run_trainings("evaluation", tmp_path_factory, data)
    ours, cpus = notes["gpu"], notes["cpu"]
    assert ours["translations"] == cpus["translations"]
    assert len(set(cpus["translations"])) > 2
    assert ours["perplexity"] == pytest.approx(cpus["perplexity"], rel=ERROR)
    assert min(ours["decoding"], ours["measuring"]) > 0
    assert ours["with_cudnn"] == 0
