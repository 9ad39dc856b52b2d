"""`aiayn evaluations` makes what the four verbs make, keeps what is current, and survives failures
and kills.
"""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn import stages
from aiayn.__main__ import main
from aiayn.cli import evaluations
from aiayn.data.sources.fetch import fetch_corpus
from aiayn.paths import corpus_record, train_record
from aiayn.provenance import file_sha256
from aiayn.records import (
    BinarizedCorpus,
    EvaluationsRecord,
    Hypotheses,
    TrainRecord,
    read_record,
    write_record,
)
from tests.engine.tiny_spec import CORPUS
from tests.forks import fork

PLACE = f"{CORPUS.name}/base/seed1"
LIST = Path(f"results/demo/evaluations/{PLACE}.json")
TRAIN = train_record(Path("results"), "demo", CORPUS.name, "base", 1)
ON_DEV = "last1/tiny_dev"
WORDS = (ON_DEV, "last1/tiny_dev-alpha1.4", "last2/tiny_test")
NUM_KILLS = 20


def record_path(verb: str, word: str) -> Path:
    return Path(f"results/demo/{verb}/{PLACE}/{word}.json")


AVERAGES = [record_path("average", average) for average in ("last1", "last2")]
MADE = [
    *AVERAGES,
    *(record_path(verb, word) for verb in ("decode", "score") for word in WORDS),
    record_path("perplexity", ON_DEV),
]


def command(*more: str) -> list[str]:
    """Return the command of the tiny training's evaluations, in the folder of its results."""
    data, raw = (
        str(corpus_record(Path("results"), "demo", verb, CORPUS.name))
        for verb in ("binarize", "fetch")
    )
    inputs = ["--train", str(TRAIN), "--binarized", data, "--raw", raw, "--device", "cpu"]
    asked = ["--decode", *WORDS, "--perplexity", ON_DEV]
    return ["evaluations", "--scale", "demo", *inputs, *asked, "--record", str(LIST), *more]


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, finished: TrainRecord, data: BinarizedCorpus
) -> Iterator[Path]:
    """Return a folder in which the evaluations of the finished training, as the demo's base, are
    made. The tiny corpus is known by its name.
    """
    folder, here = tmp_path_factory.mktemp("evaluated"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("aiayn.cli.decode", "aiayn.cli.perplexity", "aiayn.scoring.recorded"):
            patch.setattr(f"{module}.read_corpus", lambda _: CORPUS)
        os.chdir(folder)
        try:
            run = f"{CORPUS.name}-base-seed1-01234567"
            write_record(msgspec.structs.replace(finished, system="base", run=run), TRAIN)
            path = corpus_record(Path("results"), "demo", "fetch", CORPUS.name)
            write_record(fetch_corpus(CORPUS, mirror=None, record_path=path), path)
            write_record(data, corpus_record(Path("results"), "demo", "binarize", CORPUS.name))
            assert main(command()) == 0
        finally:
            os.chdir(here)
        yield folder


@pytest.fixture
def there(evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that folder, which is the working directory."""
    copy = Path(shutil.copytree(evaluated, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    return copy


def digests() -> dict[Path, str]:
    """Return the digest of each record that the job has made."""
    return {path: file_sha256(path) for path in MADE if path.exists()}


def remade(*more: str, exit_code: int = 0) -> list[Path]:
    """Return the records that the job makes."""
    before = digests()
    assert main(command(*more)) == exit_code
    after = digests()
    return [path for path in MADE if path in after and before.get(path) != after[path]]


def results_of(path: Path) -> dict[str, Any]:
    """Return what a record says, without how and when it was made."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name in ("provenance", "checksum", "sentences_per_second"):
        content.pop(name, None)
    return content


def rewrite_as_earlier(path: Path) -> None:
    """Rewrite a record as d02d6d88 wrote it, with its time: without the stage's number, and without
    the input of an average. Its inputs have been rewritten before.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["checksum"]
    provenance = content["provenance"]
    del provenance["stage_version"]
    inputs = list(provenance["input_sha256_by_path"])
    if path in AVERAGES:
        inputs = []
    provenance["input_sha256_by_path"] = {name: file_sha256(path.parent / name) for name in inputs}
    modified = path.stat().st_mtime_ns
    path.write_text(json.dumps(content), encoding="utf-8")
    os.utime(path, ns=(modified, modified))


@pytest.mark.usefixtures("there")
def test_the_records_are_those_of_the_four_verbs_and_the_list_has_their_digests() -> None:
    listed = read_record(LIST, EvaluationsRecord)
    assert listed.sha256_by_record == digests()
    assert set(listed.sha256_by_record) == set(MADE)
    by_job = {path: results_of(path) for path in MADE}
    data, raw = (f"results/demo/{verb}/{CORPUS.name}/record.json" for verb in ("binarize", "fetch"))
    for word in WORDS:
        average, _, testset = word.partition("/")
        averaged = str(record_path("average", average))
        on_testset = ["--checkpoint", averaged, "--binarized", data, "--device", "cpu"]
        on_testset += ["--testset", testset]
        flags_by_verb = {
            "average": ["--train", str(TRAIN), "--last", average.removeprefix("last")],
            "decode": ["--scale", "demo", "--system", "base", *on_testset],
            "perplexity": on_testset,
            "score": ["--decoded", str(record_path("decode", word)), "--raw", raw],
        }
        for verb, flags in flags_by_verb.items():
            path = record_path(verb, average if verb == "average" else word)
            if path in MADE:
                assert main([verb, *flags, "--record", str(path)]) == 0
                assert results_of(path) == by_job[path]


@pytest.mark.usefixtures("there")
def test_what_is_current_is_not_made_again_and_without_its_list_either() -> None:
    LIST.unlink()
    assert remade() == []
    assert read_record(LIST, EvaluationsRecord).sha256_by_record == digests()


@pytest.mark.usefixtures("there")
def test_records_of_earlier_versions_are_kept() -> None:
    """Those of d02d6d88 state neither the stage's number nor, for an average, the training."""
    for path in MADE:
        rewrite_as_earlier(path)
    LIST.unlink()
    assert remade() == []
    os.utime(TRAIN)  # trained again since: an average may come from the earlier run
    assert remade() == MADE


@pytest.mark.usefixtures("there")
def test_another_search_translates_again_and_averages_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_system = evaluations.read_system

    def with_beam_2(system: str, scale: str) -> Any:
        spec = read_system(system, scale)
        return msgspec.structs.replace(
            spec, decoding=msgspec.structs.replace(spec.decoding, beam_size=2)
        )

    monkeypatch.setattr(evaluations, "read_system", with_beam_2)
    expected = [path for path in MADE if path.parts[2] in ("decode", "score")]
    assert remade() == expected
    assert {read_record(record_path("decode", word), Hypotheses).beam_size for word in WORDS} == {2}


@pytest.mark.parametrize(
    ("verb", "follow"),
    [
        ("average", ("average", "decode", "perplexity", "score")),
        ("decode", ("decode", "score")),
        ("perplexity", ("perplexity",)),
        ("score", ("score",)),
    ],
)
@pytest.mark.usefixtures("there")
def test_a_stage_of_a_new_number_is_made_again_with_what_follows(
    verb: str, follow: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stages.STAGE_VERSIONS, verb, stages.STAGE_VERSIONS[verb] + 1)
    assert remade() == [path for path in MADE if path.parts[2] in follow]
    assert remade() == []


@pytest.mark.usefixtures("there")
def test_what_is_missing_torn_or_changed_is_made_again() -> None:
    on_test = record_path("decode", "last2/tiny_test")
    on_test.with_suffix(".txt").write_text("changed\n", encoding="utf-8")
    record_path("score", ON_DEV).unlink()
    of_test = [on_test, record_path("score", "last2/tiny_test")]
    assert remade() == sorted([*of_test, record_path("score", ON_DEV)], key=MADE.index)
    AVERAGES[0].with_suffix(".pt").unlink()
    of_last1 = [path for path in MADE if path == AVERAGES[0] or "last1" in path.parts]
    assert remade() == of_last1
    assert AVERAGES[0].with_suffix(".pt").exists()
    AVERAGES[1].with_suffix(".pt").write_bytes(b"torn")
    on_test.unlink()
    assert remade() == [AVERAGES[1], *of_test]


@pytest.mark.usefixtures("there")
def test_a_copy_without_checkpoints_and_runs_is_kept_as_long_as_nothing_reads_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As on a laptop, to which only results are copied.
    train = read_record(TRAIN, TrainRecord)
    content = TRAIN.read_bytes().replace(str(train.run_folder).encode(), b"/nowhere")
    for path in AVERAGES:
        path.with_suffix(".pt").unlink()
        rewrite_as_earlier(path)
    times = TRAIN.stat().st_mtime_ns
    TRAIN.write_bytes(content.rpartition(b',\n "checksum"')[0] + b"\n}")
    os.utime(TRAIN, ns=(times, times))
    for path in MADE[len(AVERAGES) :]:
        rewrite_as_earlier(path)
    assert remade() == []
    record_path("perplexity", ON_DEV).unlink()
    assert remade(exit_code=1) == []
    assert "no folder /nowhere" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("there")
def test_a_test_set_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shutil.rmtree("results/demo/average")
    LIST.unlink()
    capsys.readouterr()
    assert main([*command(), "--decode", "last3/nothing", *WORDS]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"aiayn evaluations: {LIST}: not written, because 1 of 4 evaluations")
    assert "(last3/nothing)" in message
    assert "no test set 'nothing'" in message
    assert set(digests()) == set(MADE)
    assert not LIST.exists()

    def diverged(*_: object, **__: object) -> None:
        raise ValueError("not a number")

    monkeypatch.setattr(evaluations, "measure_testset", diverged)
    record_path("perplexity", ON_DEV).unlink()
    record_path("score", WORDS[2]).unlink()
    assert remade(exit_code=1) == [record_path("score", WORDS[2])]
    message = capsys.readouterr().err
    assert "ValueError: not a number" in message.splitlines()[-1]
    assert "Traceback" in caplog.text  # a mistake of the program


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--decode", "tiny_dev"), "'tiny_dev': expected an average and a test set"),
        (("--decode", "last0/tiny_dev"), "'last0/tiny_dev': expected an average and a test set"),
        (("--record", "here/seed1.json"), f"expected a path that ends in demo/{LIST.parts[2]}/"),
    ],
)
@pytest.mark.usefixtures("there")
def test_a_wrong_word_or_place_is_refused_and_nothing_is_made(
    flags: tuple[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree("results/demo/score")
    before = digests()
    assert main(command(*flags)) == 2
    assert expected in capsys.readouterr().err
    assert digests() == before


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_a_job_that_is_killed_twenty_times_at_random_leaves_equal_records() -> None:
    expected = {path: results_of(path) for path in MADE}

    def begin_anew() -> None:
        for verb in ("average", "decode", "perplexity", "score", "evaluations"):
            shutil.rmtree(f"results/demo/{verb}", ignore_errors=True)

    begin_anew()
    begin = time.monotonic()
    _, status = os.waitpid(fork(lambda: main(command())), 0)
    seconds = time.monotonic() - begin
    assert status == 0
    chance, num_killed, num_unfinished = random.Random(1), 0, 0
    begin_anew()
    while num_killed < NUM_KILLS:
        child = fork(lambda: main(command()))
        time.sleep(chance.uniform(0, seconds / 3))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        num_killed += os.WIFSIGNALED(status)
        num_unfinished += not LIST.exists()
        if LIST.exists():  # finished: what it listed is whole; and once more from the beginning
            assert {path: results_of(path) for path in MADE} == expected
            begin_anew()
    assert num_unfinished > NUM_KILLS / 2
    assert main(command()) == 0
    assert {path: results_of(path) for path in MADE} == expected
    assert read_record(LIST, EvaluationsRecord).sha256_by_record == digests()
    assert main(["check", "results"]) == 0
