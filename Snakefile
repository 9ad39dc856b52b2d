"""Reproduces *Attention Is All You Need*, from the text of the corpora to the tables of the paper.

    # minutes on two CPU cores
    snakemake --profile profiles/local --configfile workflow/config/demo.yaml
    # hours
    snakemake --profile profiles/local --configfile workflow/config/multi30k.yaml
    # the paper itself: days, on 8-GPU nodes of a Slurm cluster
    snakemake --profile slurm

The rule files are included in the order of the data flow. workflow/README.md has a table of the
stages.
"""

import time

from aiayn.runs.workflow_progress import WorkflowProgress
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER
from aiayn.wings import asked_stages
from snakemake.utils import min_version

min_version("9.0")


# An absolute path, because a relative path would be looked up in --directory. `workflow.basedir` is
# not used: it is the folder of the file that snakemake was given, which may be workflow/.
configfile: str(CONFIG_FOLDER / "paper.yaml")


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"  # fetch, clean, segment, binarize
include: "workflow/rules/train.smk"  # train
include: "workflow/rules/evaluate.smk"  # evaluations, baselines
include: "workflow/rules/tables.smk"  # tables


# The rules of wings, if the scale's config asks for them.
for stage in asked_stages(SCALE):

    include: str(CHECKOUT / stage.rules)


rule all:
    default_target: True
    input:
        rules.tables.output,


rule data:
    """Make the data-bins (fairseq's binary text) of all corpora of the scale, without training."""
    input:
        [corpus_path("binarize", corpus) for corpus in CORPORA],


BEGIN_SECONDS = time.monotonic()


# On this machine the stages print what they do, PROGRESS shows how far they are, and Snakemake's
# own log of thousands of lines is only in its file. With `--verbose`, with `--printshellcmds` and
# with the Slurm profile the whole log is shown: only it lists the jobs of the CPU rules on a
# cluster. The filter comes first, because it also reads the records that other filters leave out.
PROGRESS = WorkflowProgress(Path(SCALE.runs_folder))
if workflow.is_main_process and not workflow.dryrun:
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            handler.filters.insert(0, PROGRESS)


onstart:
    # A copy of the sheet next to the results shows later why each training was made.
    EXPERIMENT.write_sheet(RESULTS)
    print(f"Snakemake's log: {', '.join(log)}", flush=True)
    print("`aiayn status`, in another terminal, shows all trainings", flush=True)
    # Only now it is known which executor runs the jobs.
    PROGRESS.start(
        shows_all=not workflow.local_exec
        or workflow.output_settings.verbose
        or workflow.output_settings.printshellcmds
    )


onsuccess:
    PROGRESS.stop()
    print(f"finished in {time.monotonic() - BEGIN_SECONDS:.0f} s")


onerror:
    PROGRESS.stop()
