"""From a data-bin to a training for each corpus, system and seed.

Each job is a driver: it submits the training, waits, and copies the record when it is done. It runs
on this machine (`localrule`), because a job of a cluster must not submit jobs.

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
        # An empty list unless the system continues a shorter training, which must then come first.
        beginning=beginning_record,
    output:
        record=STAGE / "train/{corpus}/{system}/seed{seed}.json",
    params:
        # The most checkpoints that the tables average.
        num_models=lambda wildcards: EXPERIMENT.num_models(wildcards.corpus, wildcards.system),
        beginning=lambda wildcards, input: (
            ["--begin-from", input.beginning] if input.beginning else []
        ),
        overrides=override_flags,  # in the digest already
        scale=SCALE.scale,
        stage_version=STAGE_VERSIONS["train"],
        # Not a flag of the command: only a change of these values trains again. Comments in the
        # file and settings of the search do not.
        training_digest=lambda wildcards: spec_digest(SYSTEMS[wildcards.system].training),
    priority: training_priority
    threads: 1
    # These decide where and whether a training runs, not its result: a change repeats no training.
    # With slurm the cluster's file sets the number of ranks.
    resources:
        cluster_file=SCALE.cluster,  # the Slurm plugin reads `cluster` as sbatch's --clusters
        launcher="local",
        # With `--resources local_gpus=N` no more start at once than N GPUs can train.
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
