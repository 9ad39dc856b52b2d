"""Trains each system on each corpus with each seed.

Each job of the rule `train` is a driver: it submits a training, waits for it, and copies the record
of the finished training. The driver runs on the machine of snakemake (`localrule`), because a job
on a cluster must not submit jobs.

reads: results/<scale>/binarize/<corpus>/record.json, workflow/config/systems/<scale>/<system>.yaml
writes: results/<scale>/train/<corpus>/<system>/seed<k>.json; checkpoints, log and attempts.jsonl in
    the runs folder
"""


rule train:
    """
    Training {wildcards.system} on {wildcards.corpus}, seed {wildcards.seed}
      - launcher {resources.launcher}, runs in {resources.runs_folder}
      - keeping the last {params.num_models} models
    """
    localrule: True
    input:
        binarized=STAGE / "binarize/{corpus}/record.json",
        system=ancient(system_path),
        # The record of the shorter training that the system continues, which must come first. For
        # most systems the list is empty.
        beginning=beginning_record,
    output:
        record=STAGE / "train/{corpus}/{system}/seed{seed}.json",
    params:
        # The largest number of checkpoints that a table averages.
        num_models=lambda wildcards: EXPERIMENT.num_models(wildcards.corpus, wildcards.system),
        beginning=lambda wildcards, input: (
            ["--begin-from", input.beginning] if input.beginning else []
        ),
        # The digest below contains these values already.
        overrides=override_flags,
        scale=SCALE.scale,
        stage_version=STAGE_VERSIONS["train"],
        # Not used by the command. Only a change of these values repeats the training: an edited
        # comment or a change of the search does not.
        training_digest=lambda wildcards: spec_digest(SYSTEMS[wildcards.system].training),
    priority: training_priority
    threads: 1
    # Resources decide where and whether a training runs, but not its result. A change of `params`
    # would repeat the training. With slurm the cluster's file sets the number of ranks.
    resources:
        # Not called `cluster`, which the Slurm plugin would pass to sbatch as --clusters.
        cluster_file=SCALE.cluster,
        launcher="local",
        # With `--resources local_gpus=N` at most N trainings on a GPU run at the same time.
        local_gpus=lambda wildcards: int(SYSTEMS[wildcards.system].training.device != "cpu"),
        long_runs="--allow-long-runs" if SCALE.allow_long_runs else "--no-allow-long-runs",
        num_ranks=1,
        runs_folder=SCALE.runs_folder,
    log:
        f"logs/{SCALE.scale}/train/{{corpus}}/{{system}}/seed{{seed}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/train/{{corpus}}/{{system}}/seed{{seed}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn train \
            --scale {params.scale:q} \
            --corpus {wildcards.corpus:q} \
            --system {wildcards.system:q} \
            --seed {wildcards.seed:q} \
            --binarized {input.binarized:q} {params.beginning:q} \
            --runs-folder {resources.runs_folder:q} \
            --launcher {resources.launcher:q} \
            --cluster {resources.cluster_file:q} \
            --num-models {params.num_models:q} \
            --num-ranks {resources.num_ranks:q} \
            --threads-per-rank {threads:q} {params.overrides:q} \
            {resources.long_runs:q} \
            --record {output.record:q} 2>{log:q}
        """
