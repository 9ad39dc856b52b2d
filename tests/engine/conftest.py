"""A tiny corpus and one finished training, made once for all tests of this folder.

Other folders import these fixtures. pytest takes them there for other fixtures, so that a cache
keeps what they return: a process makes each once.
"""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental import compose
from omegaconf import DictConfig

from aiayn.records import BinarizedCorpus, SegmentedText, TrainRecord, read_record
from aiayn.train.compat import training_config
from tests.engine.tiny_data import make_tiny_data
from tests.engine.tiny_spec import TRAINING, TWO_BATCHES, flags_of
from tests.engine.tiny_training import make_request, train, write_results


@pytest.fixture(scope="session", autouse=True)
def _few_validations() -> Iterator[None]:
    """Validate 4 times in a training of this process, not 20: it takes a third of the time and
    changes no tensor.
    """
    with mock.patch("aiayn.train.fairseq_args.NUM_VALIDATIONS", 4):
        yield


@pytest.fixture(scope="session", autouse=True)
def _every_due_checkpoint_is_written() -> Iterator[None]:
    """Let trainings of this process leave out no checkpoint: they take less than RESUME_SECONDS."""
    with mock.patch("aiayn.train.train.RESUME_SECONDS", 0.0):
        yield


@pytest.fixture(scope="session", autouse=True)
def _groups_are_composed_once() -> Iterator[None]:
    """Let hydra compose fairseq's config once a process for each choice of groups, such as the
    model and the criterion, and set the values in a copy: 0.02 s in place of 0.15 for each training.
    """
    composed: dict[tuple[str, ...], DictConfig] = {}
    parser = OverridesParser.create()
    parse = functools.cache(parser.parse_rule)

    def compose_of_groups(name: str, *, overrides: list[str], strict: bool) -> DictConfig:
        # `model=transformer` chooses a group, `model.dropout=0.1` sets a value in it
        groups = tuple(text for text in overrides if "." not in text.partition("=")[0])
        if groups not in composed:
            composed[groups] = compose(name, overrides=list(groups), strict=strict)
        config = copy.deepcopy(composed[groups])
        values = [text for text in overrides if text not in groups]
        ConfigLoaderImpl._apply_overrides_to_config(parser.parse_overrides(values), config)
        return config

    with (
        mock.patch.object(OverridesParser, "parse_rule", lambda _, text, rule: parse(text, rule)),
        mock.patch("fairseq.dataclass.utils.compose", compose_of_groups),
    ):
        # That of the tiny training, before a test forks: each fork would compose it.
        training_config(flags_of(TRAINING))
        yield


@functools.cache
def make_data(folder: Path) -> BinarizedCorpus:
    return make_tiny_data(folder / "tiny_corpus")


@functools.cache
def make_training(folder: Path) -> TrainRecord:
    return train(make_request(folder / "tiny_runs" / "uninterrupted", make_data(folder)))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> BinarizedCorpus:
    """Return the data-bin of 600 training pairs, made by our own stages."""
    return make_data(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def segmented(data: BinarizedCorpus) -> SegmentedText:
    """Return the record of the subwords behind the data-bin."""
    return read_record(Path(data.folder).parents[1] / "segment" / "record.json", SegmentedText)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> TrainRecord:
    """Return the record of an uninterrupted training. Its folder is not to be changed."""
    return make_training(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def finished_by_two_batches(
    tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus
) -> TrainRecord:
    """Return the record of a finished training with two batches an update."""
    return train(
        make_request(tmp_path_factory.mktemp("runs") / "by_two_batches", data, **TWO_BATCHES)
    )


@pytest.fixture(scope="session")
def results(
    tmp_path_factory: pytest.TempPathFactory,
    finished: TrainRecord,
    data: BinarizedCorpus,
    segmented: SegmentedText,
) -> Path:
    """Return a results folder with the finished training as the demo's base, averaged over its
    last two models.
    """
    folder = tmp_path_factory.mktemp("results")
    write_results(folder, finished, data, segmented)
    return folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Return the folder of a run of one's own."""
    return tmp_path / "run"
