"""Each patch of fairseq does what it says, and is needed."""

import argparse
import io
import queue
import signal
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import data_utils, iterators

from aiayn.errors import ConfigError
from aiayn.train import compat
from aiayn.train.request import StopFlag


def test_what_fairseq_puts_into_checkpoints_is_loaded_with_weights_only() -> None:
    # Without `weights_only` a foreign checkpoint could run any code.
    state = {
        "args": argparse.Namespace(arch="transformer"),
        "loss": np.float64(1.5),
        "best": np.float32(2.5),
        "indices": np.arange(3),
        "model": torch.ones(2),
    }
    content = io.BytesIO()
    torch.save(state, content)
    content.seek(0)
    with torch.serialization.safe_globals([]):
        compat.install()
        compat.install()
        loaded = torch.load(content, weights_only=True)
    assert (loaded["args"].arch, loaded["loss"], loaded["best"], loaded["indices"].tolist()) == (
        "transformer",
        1.5,
        2.5,
        [0, 1, 2],
    )


def batches_of(num_tokens: list[int], **limits: Any) -> list[list[int]]:
    """Return the batches of sentences of these lengths, as positions."""
    batches = data_utils.batch_by_size(
        np.arange(len(num_tokens)),
        lambda index: num_tokens[index],
        num_tokens_vec=np.array(num_tokens),
        **limits,
    )
    return [batch.tolist() for batch in batches]


def slow_batches_of(
    num_tokens: list[int], max_tokens: int | None, max_sentences: int | None, multiple: int
) -> list[list[int]]:
    """Return the batches by the rule: as many as fit, rounded down to a multiple if there are that
    many.
    """
    batches, begin = [], 0
    while begin < len(num_tokens):
        size = 1
        while (
            begin + size < len(num_tokens)
            and size + 1 <= (max_sentences or len(num_tokens))
            and (size + 1) * max(num_tokens[begin : begin + size + 1]) <= (max_tokens or np.inf)
        ):
            size += 1
        size -= size % multiple if size > multiple else 0
        batches.append(list(range(begin, begin + size)))
        begin += size
    return batches


@pytest.fixture
def own_batching() -> None:
    compat.install_batching()
    compat.install_batching()


@pytest.mark.usefixtures("own_batching")
@pytest.mark.parametrize("order", ["sorted", "nearly sorted", "descending", "none"])
@pytest.mark.parametrize("multiple", [1, 8])
def test_batches_follow_the_rule_in_any_order_of_lengths(order: str, multiple: int) -> None:
    rng = np.random.default_rng(7)
    for longest in (1, 4, 40, 400):
        num_tokens = rng.integers(1, longest + 1, size=500)
        if order != "none":
            num_tokens = np.sort(num_tokens)
        if order == "nearly sorted":  # the longer sides of pairs sorted by the shorter
            num_tokens = np.maximum(num_tokens, rng.integers(1, longest + 1, size=500) * 2 // 3)
        lengths = num_tokens.tolist()[:: -1 if order == "descending" else 1]
        for max_tokens in (longest, longest + 7, 25 * longest, None):
            for max_sentences in (1, 9, 32, None):
                batches = batches_of(
                    lengths,
                    max_tokens=max_tokens,
                    max_sentences=max_sentences,
                    required_batch_size_multiple=multiple,
                )
                assert batches == slow_batches_of(lengths, max_tokens, max_sentences, multiple)


@pytest.mark.usefixtures("own_batching")
def test_lengths_may_be_asked_for_one_by_one() -> None:
    """And the sentences may be a list, in any order."""
    batches = data_utils.batch_by_size([3, 1, 2], lambda index: 10 * index, max_tokens=60)
    assert [batch.tolist() for batch in batches] == [[3, 1], [2]]
    assert data_utils.batch_by_size([], lambda index: 10, max_tokens=60) == []


@pytest.mark.usefixtures("own_batching")
def test_a_sentence_longer_than_a_batch_and_fixed_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"61 tokens.*60"):
        batches_of([5, 61, 7], max_tokens=60)
    with pytest.raises(ConfigError, match="--num-batch-buckets"):
        batches_of([5, 6, 7], max_tokens=60, fixed_shapes=[(8, 30)])


def after_imports(imports: str) -> tuple[set[str], str]:
    """Return the modules that a new process has after imports, and what these wrote to stderr.

    Also as the first time: Python 3.12 and later warn when they compile a file of fairseq that
    is not cached.
    """
    script = (
        f"import sys, {imports}\ncompile('r = \"\\\\d\"',"
        " sys.modules['fairseq'].__file__.replace('__init__', 'models/x'),"
        " 'exec')\nprint(*sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert process.stdout.count("\n") == 1
    return set(process.stdout.split()), process.stderr


@pytest.mark.parametrize(
    "first",
    [
        "aiayn.train.plugin",
        pytest.param("aiayn.decode.decode", marks=pytest.mark.slow),
        "aiayn.decode.perplexity",
    ],
)
def test_importing_the_engine_prints_nothing_and_omits_what_no_translation_model_needs(
    first: str,
) -> None:
    """The slow one begins as the test of perplexity does: with `aiayn.decode.exported`."""
    modules, printed = after_imports(f"{first}, aiayn.train.plugin")
    assert printed == ""
    assert not {"sklearn", "fairseq.tasks.speech_to_text", "fairseq.models.roberta"} & modules
    assert {"fairseq.models.lstm", "fairseq.models.fconv", "fairseq.models.transformer"} <= modules


@pytest.mark.slow
def test_who_imports_fairseq_first_has_all_of_it() -> None:
    modules, _ = after_imports("fairseq, aiayn.train.plugin")
    assert {"fairseq.tasks.speech_to_text", "fairseq.models.roberta"} <= modules


def test_what_starts_the_loaders_lets_them_outlive_each_signal_that_stops_a_training() -> None:
    """A cluster sends TERM, or before the time limit USR2, to every process of a job."""
    compat.install_loaders()
    started: queue.Queue[Any] = queue.Queue()
    source = (subprocess.Popen(["sleep", "60"]) for _ in range(1))  # starts it in the thread
    consumer = iterators.BackgroundConsumer(started, source, max_len=None, cuda_device=None)
    consumer.start()
    consumer.join()
    process = started.get()
    try:
        for number in StopFlag.numbers:
            process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_trainings_config_is_made_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        config = compat.training_config(["data-bin", "--arch", "transformer", "--max-tokens", "60"])
    assert config.dataset.max_tokens == 60
