"""What a terminal shows of a whole demo, and what Snakemake's own log keeps."""

import re

from tests.pipeline_copy import Pipeline

MAX_LINES = 150


def test_the_demo_prints_a_line_for_each_training_and_ends_with_the_page_and_the_time(
    finished_demo: Pipeline,
) -> None:
    lines = (finished_demo.fake_folder / "terminal.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_LINES
    # Snakemake and a job may print at once: two texts share a line then.
    assert len(re.findall(r"train: results/\S+ is made", "\n".join(lines))) == 12
    assert not any("unseen" in line for line in lines)
    assert len([line for line in lines if re.search(r"steps \(\d+%\) done", line)]) == 9
    assert lines[-2] == "tables: results/demo/report.html is made"
    assert re.fullmatch(r"finished in \d+ s", lines[-1])


def test_snakemakes_log_keeps_what_the_terminal_leaves_out(finished_demo: Pipeline) -> None:
    lines = (finished_demo.fake_folder / "terminal.txt").read_text(encoding="utf-8").splitlines()
    (named,) = (line for line in lines if line.startswith("Snakemake's log: "))
    with open(named.partition(": ")[2], encoding="utf-8") as log:
        text = log.read()
    assert len(text.splitlines()) > 500
    assert text.count("localrule train:") == 12
    assert not any("localrule train:" in line for line in lines)
