"""`make bench` runs on a finished training, and its search equals the oracle's."""

from pathlib import Path

import pytest

from tests.benchmarks import bench_decode

pytestmark = pytest.mark.slow


def test_the_benchmark_of_decoding_runs(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench_decode.main(["--results", str(results), "--num-lines", "4", "--repetitions", "1"])
    printed = capsys.readouterr().out
    assert printed.count("4 sentences, beam 4") == 2
    assert printed.count("  0 hypotheses other than the oracle's") == 2
    assert printed.count(" sentences a CPU-second") == 4
