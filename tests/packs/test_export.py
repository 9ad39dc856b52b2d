"""An exported model is the run's: the same tensors, log-probabilities and translations, or no
export at all.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import safetensors.torch
import torch

import aiayn.decode.decode
from aiayn.decode.decode import Translator, load_split
from aiayn.decode.exported import load_exported
from aiayn.errors import CheckpointError, RecordError, SpaceError, UsageError
from aiayn.provenance import gather_provenance
from aiayn.records import (
    BinarizedCorpus,
    CheckpointRecord,
    ExportRecord,
    SegmentedText,
    TrainRecord,
    read_record,
    write_record,
)
from aiayn.runs.finished import FinishedRun, find_finished
from aiayn.spec.system import TrainingSpec
from aiayn.train.average import average_checkpoints
from aiayn.train.checkpoints import tensors_sha256
from aiayn.train.model import load_model
from analysis.packs.heavy_export import export_model
from tests.engine.random_checkpoint import SOURCE, TARGET, log_probabilities, save_random
from tests.engine.tiny_spec import DECODING, TRAINING
from tests.engine.tiny_training import write_results
from tests.records_factory import write_sealed


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
    finished: TrainRecord,
    data: BinarizedCorpus,
    segmented: SegmentedText,
) -> FinishedRun:
    """Return the finished training's last two models, averaged."""
    checkpoint = average_checkpoints(
        finished, last=2, record_path=tmp_path_factory.mktemp("average") / "last2.json"
    )
    return FinishedRun(
        scale="demo",
        checkpoint=checkpoint,
        data=data,
        segmented=segmented,
        decoding=DECODING,
        training=TRAINING,
    )


@pytest.fixture(scope="module")
def translator(run: FinishedRun) -> Translator:
    """Return the run's own translator."""
    return Translator(Path(run.checkpoint.path), Path(run.data.folder), DECODING, device="cpu")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, run: FinishedRun) -> Path:
    """Return the folder of its safetensors export."""
    folder = tmp_path_factory.mktemp("exports") / "exported"
    export_model(run, into=folder)
    return folder


def random_run(folder: Path, data: BinarizedCorpus, training: TrainingSpec) -> FinishedRun:
    """Return a run whose every parameter is drawn at random."""
    path = save_random(folder, data, training)
    checkpoint = CheckpointRecord(
        provenance=gather_provenance(),
        run="random",
        average="last1",
        path=path,
        averaged_updates=[0],
        tensors_sha256=tensors_sha256(torch.load(path, weights_only=True)["model"]),
    )
    return FinishedRun(
        scale="demo",
        checkpoint=checkpoint,
        data=data,
        segmented=None,
        decoding=DECODING,
        training=training,
    )


@pytest.mark.slow
def test_an_export_says_all_that_a_reader_needs(exported: Path, run: FinishedRun) -> None:
    assert sorted(path.name for path in exported.iterdir()) == [
        "config.json",
        "model.safetensors",
        "shared_vocabulary.json",
        "subword_joint.model",
    ]
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    assert config["run"] == run.checkpoint.run
    assert config["averaged_updates"] == [30, 40]
    assert config["training"] == msgspec.to_builtins(run.training)
    assert config["decoding"] == msgspec.to_builtins(DECODING)
    assert config["id_by_special_symbol"] == {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    assert (config["source_ends_with"], config["target_begins_with"]) == ("</s>", "</s>")
    assert [config[key] for key in ("normalise", "tokenise", "subword_method")] == [
        "none",
        "none",
        "sentencepiece",
    ]
    assert config["first_position"] == 0
    assert config["tensors_sha256"] == run.checkpoint.tensors_sha256
    (named,) = config["provenance"]["input_sha256_by_path"]
    assert (exported / named).samefile(run.checkpoint.path)
    symbols = json.loads(
        (exported / config["vocabulary_file_by_side"]["source"]).read_text(encoding="utf-8")
    )
    assert symbols[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert len(symbols) == run.data.vocabulary_size_by_language["de"]


def test_the_one_matrix_of_three_is_stored_once(exported: Path, finished: TrainRecord) -> None:
    stored = safetensors.torch.load_file(exported / "model.safetensors")
    assert read_record(exported / "config.json", ExportRecord).tied == {
        "decoder.embed_tokens.weight": "encoder.embed_tokens.weight",
        "decoder.output_projection.weight": "encoder.embed_tokens.weight",
    }
    assert sum(tensor.numel() for tensor in stored.values()) == finished.num_parameters


def test_loaded_again_it_translates_alike(
    exported: Path, run: FinishedRun, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal to the last bit, and only from the folder: no checkpoint and no data-bin is opened."""
    monkeypatch.setattr(
        aiayn.decode.decode,
        "load_average",
        lambda *_, device: load_exported(exported, device=device),
    )
    again = Translator(Path("no checkpoint"), Path("no data-bin"), DECODING, device="cpu")
    sources, _ = load_split(translator.task, "test")
    assert again.translate(sources) == translator.translate(sources)
    line = "\u2581the never seen"
    assert torch.equal(again.number(line), translator.number(line))


@pytest.mark.parametrize(
    "changes",
    [
        {"d_k": 4, "attention": "additive", "norm": "batch", "norm_order": "pre", "tied_embeddings": False},
        {"norm": "layer_std", "attention_biases": False, "embeddings": "standard_normal"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)  # fmt: skip
def test_every_system_comes_back_as_it_was(
    tmp_path: Path, data: BinarizedCorpus, changes: dict[str, Any]
) -> None:
    training = msgspec.structs.replace(TRAINING, **changes)
    run = random_run(tmp_path, data, training)
    export_model(run, into=tmp_path / "exported")
    model, task = load_model(Path(run.checkpoint.path), Path(data.folder), device="cpu")
    again, _ = load_exported(tmp_path / "exported")
    assert tensors_sha256(again.state_dict()) == tensors_sha256(model.state_dict())
    assert log_probabilities(again, task, SOURCE, TARGET) == log_probabilities(
        model, task, SOURCE, TARGET
    )


@pytest.mark.parametrize("architecture", ["lstm", "fconv", "fairseq_transformer"])
def test_a_model_that_needs_fairseq_is_not_exported(
    tmp_path: Path, data: BinarizedCorpus, architecture: Any
) -> None:
    run = random_run(tmp_path, data, msgspec.structs.replace(TRAINING, architecture=architecture))
    with pytest.raises(UsageError, match=rf"architecture {architecture}, expected transformer"):
        export_model(run, into=tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


PLAIN_PYTORCH = """
import json, sys
from safetensors.torch import load_file
config = json.load(open("exported/config.json", encoding="utf-8"))
tensors = load_file("exported/model.safetensors")
tensors |= {name: tensors[stored] for name, stored in config["tied"].items()}
print(sum(tensor.numel() for name, tensor in tensors.items() if name not in config["tied"]), "parameters")
assert not {"fairseq", "aiayn"} & set(sys.modules)
"""


def test_plain_pytorch_reads_it_without_us(exported: Path, finished: TrainRecord) -> None:
    code = PLAIN_PYTORCH
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        cwd=exported.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout == f"{finished.num_parameters} parameters\n"


def change_tensor(folder: Path) -> None:
    """Change one number."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["encoder.layers.0.fc1.bias"][0] += 1e-6
    safetensors.torch.save_file(tensors, folder / "model.safetensors")


def tear_tensors(folder: Path) -> None:
    """Cut their file short."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def tie_to_nothing(folder: Path) -> None:
    """Let the config name a matrix that is not there."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"tied": {"decoder.embed_tokens.weight": "embeddings"}}
    write_sealed(json.dumps(config), folder / "config.json")


def widen(folder: Path) -> None:
    """Let the config name other settings than those of the tensors."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["training"]["d_ff"] += 1
    write_sealed(json.dumps(config), folder / "config.json")


def tear_vocabulary(folder: Path) -> None:
    """Cut its file short."""
    path = folder / "shared_vocabulary.json"
    path.write_bytes(path.read_bytes()[:-4])


def repeat_symbol(folder: Path) -> None:
    """Write a symbol twice, which would shift all later ids."""
    path = folder / "shared_vocabulary.json"
    symbols = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps([*symbols[:-1], symbols[5]]), encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change_tensor, r"a byte has changed: export the run again"),
        (tear_tensors, r"model\.safetensors: absent or torn"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            r"model\.safetensors: absent or torn",
        ),
        (tie_to_nothing, r"lacks embeddings, which config\.json names"),
        (widen, r"its tensors do not fit the settings .*size mismatch for encoder"),
        (tear_vocabulary, r"shared_vocabulary\.json: absent or torn"),
        (
            lambda folder: (folder / "shared_vocabulary.json").unlink(),
            r"shared_vocabulary\.json: absent or torn",
        ),
        (repeat_symbol, r"expected a list of different symbols that begins with <s>, <pad>"),
    ],
)
def test_a_spoilt_export_is_refused(
    tmp_path: Path, exported: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(exported, folder)
    spoil(folder)
    with pytest.raises(CheckpointError, match=message):
        load_exported(folder)


# --- a folder whole or absent


def test_a_folder_that_exists_is_left_alone(tmp_path: Path, run: FinishedRun) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="exists already; remove it, or give another folder"):
        export_model(run, into=tmp_path / "mine")
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_a_disk_that_cannot_hold_the_tensors_is_named(
    tmp_path: Path, run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(
        SpaceError, match=r"model\.safetensors: I/O error: No space left .* make room"
    ):
        export_model(run, into=tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


# --- a run of a results folder


@pytest.fixture
def results(
    tmp_path: Path, finished: TrainRecord, data: BinarizedCorpus, segmented: SegmentedText
) -> Path:
    """Return a results folder with the run as the demo's base: GNMT's penalty and
    tensor2tensor's stop.
    """
    write_results(tmp_path / "results", finished, data, segmented)
    return tmp_path / "results"


def test_the_newest_run_is_written(tmp_path: Path, results: Path, run: FinishedRun) -> None:
    export_model(find_finished(results, None, None), tmp_path / "new" / "exported")
    record = read_record(tmp_path / "new" / "exported" / "config.json", ExportRecord)
    assert (record.run, record.average) == (run.checkpoint.run, "last2")
    assert record.tensors_sha256 == run.checkpoint.tensors_sha256
    assert record.training == run.training
    assert record.decoding.length_penalty_form == "gnmt"


@pytest.mark.parametrize("changes", [{"run": "another"}, {"training_json": '{"d_model": 512}'}])
def test_a_run_without_a_training_record_is_refused(
    tmp_path: Path, results: Path, changes: dict[str, str]
) -> None:
    (path,) = results.glob("*/train/*/*/*.json")
    write_record(msgspec.structs.replace(read_record(path, TrainRecord), **changes), path)
    with pytest.raises(RecordError, match="no training record of uninterrupted"):
        export_model(find_finished(results, None, None), tmp_path / "exported")
