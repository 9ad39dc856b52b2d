"""Attention Is All You Need, from corpus to paper table.

    snakemake --profile profiles/local --configfile workflow/config/demo.yaml     minutes on two CPU cores
    snakemake --profile profiles/local --configfile workflow/config/multi30k.yaml hours
    snakemake                                                                     the paper itself (days, GPUs)

The order of the includes is the order of the data flow; workflow/README.md has the table of stages.
"""

import logging
import time

from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER
from aiayn.wings import asked_stages
from snakemake.utils import min_version

min_version("9.0")


# Absolute, because a relative one would be looked up in --directory, and not of `workflow.basedir`, which is the folder
# of the file that snakemake was given: this one's, or workflow/.
configfile: str(CONFIG_FOLDER / "paper.yaml")


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"  # fetch, clean, segment, binarize
include: "workflow/rules/train.smk"  # train
include: "workflow/rules/evaluate.smk"  # average, decode, perplexity, score, baselines
include: "workflow/rules/tables.smk"  # tables


for stage in asked_stages(SCALE):  # the rules of wings

    include: str(CHECKOUT / stage.rules)


rule all:
    default_target: True
    input:
        rules.tables.output,


rule data:
    """All data-bins of the scale, without training."""
    input:
        [corpus_path("binarize", corpus) for corpus in CORPORA],


BEGIN_SECONDS = time.monotonic()


def is_for_terminal(record):
    """Return whether to show a record of Snakemake's log: warnings, errors, each tenth of the steps."""
    if getattr(record, "event", None) == "progress" and record.done < record.total:
        return record.done * 10 // record.total > (record.done - 1) * 10 // record.total
    return record.levelno != logging.INFO


# On this machine the stages print what they do, and Snakemake's own log of thousands of lines stays
# in its file. `--verbose` and `--printshellcmds` ask for all of it; the Slurm profile keeps it, too,
# because only this log names the jobs of its CPU rules.
onstart:
    print(f"Snakemake's log: {', '.join(log)}", flush=True)
    settings = workflow.output_settings
    if workflow.local_exec and not (settings.verbose or settings.printshellcmds):
        for handler in logger.handlers:
            if handler.name == "DefaultStreamHandler":
                handler.addFilter(is_for_terminal)


onsuccess:
    print(f"finished in {time.monotonic() - BEGIN_SECONDS:.0f} s")
