"""One result file of MLPerf: three dialects, the epoch of each evaluation, and what is refused."""

import gzip
from pathlib import Path

import pytest

from analysis.public_runs.mlperf import PublicRunError, PublicTraining, is_mlperf, read_result

FIXTURES = Path(__file__).parent / "fixtures"
V05 = FIXTURES / "training_results_v0.5/v0.5.0/nvidia/submission/results/dgx1_ngc18.11_pytorch/transformer/result_0.txt"
V06_GOOGLE = FIXTURES / "training_results_v0.6/Google/results/tpu-v3-32/transformer/result_0.txt"
V06_NVIDIA = FIXTURES / "training_results_v0.6/NVIDIA/results/dgx1_ngc19.05_pytorch/transformer/result_0.txt"
V07 = FIXTURES / "training_results_v0.7/DellEMC/results/C4140/transformer/result_0.txt"
V07_JAX = FIXTURES / "training_results_v0.7/Google/results/tpu-v3-8192-JAX/transformer/result_0.txt"
GNMT = FIXTURES / "gnmt/result_0.txt"


def points(training: PublicTraining) -> list[tuple[int, float]]:
    """Return epoch and BLEU of each evaluation."""
    return [(one.epoch, round(one.bleu, 2)) for one in training.evaluations]


def refusal_of(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(PublicRunError) as raised:
        read_result(path)
    return str(raised.value)


def changed(tmp_path: Path, source: Path, old: str = "", new: str = "", *, num_lines: int | None = None) -> Path:
    """Return a copy of a file, with text replaced or only its first lines kept."""
    text = "".join(source.read_text(encoding="utf-8").splitlines(keepends=True)[:num_lines])
    assert old in text
    path = tmp_path / "result_0.txt"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_v05_counts_epochs_from_minus_one_and_logs_the_batch_of_one_gpu() -> None:
    training = read_result(V05)
    run = training.run
    assert points(training) == [(1, 20.83), (2, 23.15), (3, 25.13)]
    assert (run.round, run.submitter, run.system, run.division) == ("v0.5", "NVIDIA", "dgx1_ngc18.11_pytorch", "closed")
    assert (run.accelerator, run.num_accelerators, run.seed) == ("Tesla V100-SXM2-16GB", 8, "30947")
    assert (run.batch, run.batch_unit, run.num_parameters) == (8 * 5120, "tokens", 210808832)
    assert (run.optimizer, run.learning_rate, run.warmup_steps) == ("adam", 0.00064, 3000)
    assert (run.status, run.seconds) == ("success", 1816.6)
    assert [one.seconds for one in training.evaluations] == [613.5, 1214.4, 1816.6]


def test_the_epoch_is_that_of_the_enclosing_eval_start_where_v06_lags_behind() -> None:
    training = read_result(V06_GOOGLE)
    run = training.run
    assert points(training) == [(1, 18.88), (2, 23.50), (3, 25.08)]  # eval_accuracy itself says 1, 1, 2
    assert (run.round, run.submitter, run.system, run.seed) == ("v0.6", "Google", "tpu-v3-32", "")
    assert (run.accelerator, run.num_accelerators) == ("tpu-v3", 16)
    assert (run.batch, run.batch_unit, run.num_parameters) == (512, "sequences", 0)


def test_v06_describes_the_system_in_the_log_and_prints_bleu_as_text() -> None:
    training = read_result(V06_NVIDIA)
    run = training.run
    assert points(training) == [(1, 20.30), (2, 24.48), (3, 25.33)]
    assert (run.submitter, run.accelerator, run.num_accelerators) == ("NVIDIA", "Tesla V100-SXM2-16GB", 8)
    assert (run.batch, run.batch_unit, run.seconds) == (81920, "tokens", 1174.9)


def test_v07_logs_fractions_and_milliseconds() -> None:
    training = read_result(V07)
    run = training.run
    assert points(training) == [(1, 18.68), (2, 23.67), (3, 25.26)]
    assert (run.round, run.submitter, run.system, run.seed) == ("v0.7", "Dell EMC", "C4140", "18246")
    assert (run.accelerator, run.num_accelerators) == ("Nvidia Tesla V100-SXM2-32GB", 4)
    assert (run.batch, run.warmup_steps, run.seconds) == (61440, 2000, 2115.6)


def test_a_program_without_eval_start_names_the_epoch_itself() -> None:
    training = read_result(V07_JAX)
    assert points(training) == [(1, 2.91), (2, 20.18), (3, 23.36), (4, 25.29)]
    assert (training.run.num_accelerators, training.run.seed) == (4096, "-17469091")


def test_a_file_elsewhere_has_what_its_log_says(tmp_path: Path) -> None:
    run = read_result(changed(tmp_path, V06_NVIDIA)).run
    assert (run.submitter, run.system, run.accelerator) == ("NVIDIA", "1xDGX-1 with V100", "Tesla V100-SXM2-16GB")
    run = read_result(changed(tmp_path, V07_JAX)).run
    assert (run.submitter, run.system, run.accelerator, run.num_accelerators) == ("Google", "TPUv3-8192", "", 0)


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt.gz"
    path.write_bytes(gzip.compress(V07.read_bytes()))
    assert is_mlperf(path)
    assert points(read_result(path)) == points(read_result(V07))
    path.write_bytes(path.read_bytes()[:-40])
    assert "cannot be read" in refusal_of(path)


def test_a_run_below_the_target_is_aborted(tmp_path: Path) -> None:
    path = changed(tmp_path, V07, '"value": 0.2526334226131439', '"value": 0.2426334226131439')
    training = read_result(path)
    assert (training.run.status, training.reached()) == ("aborted", None)


@pytest.mark.parametrize("source", [V05, V06_GOOGLE, V06_NVIDIA, V07, V07_JAX])
def test_a_file_that_is_cut_between_two_lines_is_refused(tmp_path: Path, source: Path) -> None:
    lines = source.read_text(encoding="utf-8").splitlines()
    stop = next(number for number, line in enumerate(lines) if "run_stop" in line)
    message = refusal_of(changed(tmp_path, source, num_lines=stop))
    assert message.startswith(str(tmp_path / "result_0.txt"))
    assert "copy it again" in message


def test_a_file_that_is_cut_within_a_line_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_bytes(V07.read_bytes()[:-40])
    number = path.read_bytes().count(b"\n") + 1
    assert refusal_of(path).startswith(f"{path}:{number}: ':::MLLOG ")


@pytest.mark.parametrize(
    ("source", "old", "new", "expected"),
    [
        (GNMT, "", "", r"benchmark 'gnmt'; expected 'transformer'"),
        (V05, "MLPv0.5.0 transformer", "MLPv0.5.0 gnmt", r"benchmark 'gnmt'; expected 'transformer'"),
        (V07, ":::MLLOG", "MLLOG", "lines and none of MLPerf's logging; expected one of MLPv0.5.0, MLL, MLLOG"),
        (V07, ":::MLLOG {", ":::MLL {", "expected an event of MLL, whole"),
        (V07, '"value": 61440', '"value": null', "global_batch_size or input_batch_size is None; expected a number"),
        (V07, '"value": 0.18681639432907104', '"value": 186.8', "expected 0 to 100"),
        (V07, '"eval_accuracy"', '"accuracy"', "no eval_accuracy"),
        (V07, '"value": 0.18681639432907104', '"value": "high"', "a value of another form (ValueError"),
        (V07, '"submission_benchmark"', '"submission"', "no submission_benchmark; expected 'transformer'"),
    ],
)
def test_what_is_no_whole_run_of_the_transformer_is_refused(
    tmp_path: Path, source: Path, old: str, new: str, expected: str
) -> None:
    message = refusal_of(changed(tmp_path, source, old, new))
    assert expected in message
    assert message.startswith(str(tmp_path / "result_0.txt"))


def test_two_files_in_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_bytes(V07.read_bytes() + V07.read_bytes())
    assert "2 times run_start; expected one" in refusal_of(path)
    path.write_bytes(V07.read_bytes() + V05.read_bytes())
    assert "MLLOG and MLPv0.5.0; expected one of" in refusal_of(path)
