"""Evaluates each training, and scores baselines (translations made without training).

reads: results/<scale>/{train,binarize,fetch}/...
writes: results/<scale>/evaluations/<corpus>/<system>/seed<k>.json, the list of
    results/<scale>/average/<corpus>/<system>/seed<k>/<average>.{json,pt} and
    results/<scale>/{decode,perplexity,score}/<corpus>/<system>/seed<k>/<average>/<testset>.json;
    results/<scale>/baselines/<corpus>/<testset>.json

The rule `evaluations` declares only the list of records as an output. Snakemake deletes declared
outputs before a job, but a job of `evaluations` keeps the records in the list if they are up to
date.
"""


rule evaluations:
    """
    Evaluating {wildcards.system} on {wildcards.corpus}, seed {wildcards.seed}
      - average, decode, perplexity and score in one process: {params.decode}
    """
    input:
        train=STAGE / "train/{corpus}/{system}/seed{seed}.json",
        binarized=STAGE / "binarize/{corpus}/record.json",
        raw=STAGE / "fetch/{corpus}/record.json",
        # A newer file alone does not repeat the job. A change of its values does, by the digest in
        # `params`.
        system=ancient(system_path),
    output:
        record=STAGE / "evaluations/{corpus}/{system}/seed{seed}.json",
    params:
        decode=lambda wildcards: evaluation_words(wildcards, needs_perplexity=False),
        # Not used by the command. A change of the search repeats this job, and not the training.
        decoding_digest=lambda wildcards: spec_digest(SYSTEMS[wildcards.system].decoding),
        perplexity=perplexity_flags,
        scale=SCALE.scale,
        stage_version=STAGE_VERSIONS["evaluations"],
        # Not used by the command either. If the version of one of these stages is raised, the job
        # runs. It then makes only the records that are out of date.
        part_versions=[STAGE_VERSIONS[verb] for verb in EVALUATION_VERSIONS],
    priority: EVALUATIONS_PRIORITY
    threads: 1
    # A resource, because the folder of the runs does not change results. A change of `params` would
    # repeat the job.
    resources:
        runs_folder=SCALE.runs_folder,
    log:
        f"logs/{SCALE.scale}/evaluations/{{corpus}}/{{system}}/seed{{seed}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/evaluations/{{corpus}}/{{system}}/seed{{seed}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn evaluations \
            --scale {params.scale:q} \
            --train {input.train:q} \
            --binarized {input.binarized:q} \
            --raw {input.raw:q} \
            --decode {params.decode:q} {params.perplexity:q} \
            --runs-folder {resources.runs_folder:q} \
            --threads {threads:q} \
            --record {output.record:q} >{log:q} 2>&1
        """


rule baselines:
    """Score translations made without training on {wildcards.testset}, for comparison."""
    input:
        raw=STAGE / "fetch/{corpus}/record.json",
    output:
        record=STAGE / "baselines/{corpus}/{testset}.json",
    params:
        stage_version=STAGE_VERSIONS["baselines"],
    log:
        f"logs/{SCALE.scale}/baselines/{{corpus}}/{{testset}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/baselines/{{corpus}}/{{testset}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn baselines \
            --raw {input.raw:q} \
            --testset {wildcards.testset:q} \
            --record {output.record:q} >{log:q} 2>&1
        """
