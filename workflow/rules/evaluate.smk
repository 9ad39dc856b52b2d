"""From a training to its numbers: average, decode, perplexity, score; and the baselines.

reads: results/<scale>/{train,binarize,fetch,segment}/...
writes: results/<scale>/average/<corpus>/<system>/seed<k>/<average>.{json,pt},
    results/<scale>/{decode,perplexity,score}/<corpus>/<system>/seed<k>/<average>/<testset>.json,
    results/<scale>/baselines/<corpus>/<testset>.json
"""

EVALUATION = "{corpus}/{system}/seed{seed}/{average}/{testset}"


rule average:
    """Average the last checkpoints of a training (section 6.1)."""
    input:
        train=STAGE / "train/{corpus}/{system}/seed{seed}.json",
    output:
        record=STAGE / "average/{corpus}/{system}/seed{seed}/{average}.json",
        checkpoint=STAGE / "average/{corpus}/{system}/seed{seed}/{average}.pt",
    params:
        last=lambda wildcards: wildcards.average.removeprefix("last"),
        stage_version=STAGE_VERSIONS["average"],
    # The folder of the runs does not change results, so a change of it repeats no job.
    resources:
        runs_folder=SCALE.runs_folder,
    log:
        f"logs/{SCALE.scale}/average/{{corpus}}/{{system}}/seed{{seed}}/{{average}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/average/{{corpus}}/{{system}}/seed{{seed}}/{{average}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn average \
            --train {input.train:q} \
            --last {params.last:q} \
            --runs-folder {resources.runs_folder:q} \
            --record {output.record:q} >{log:q} 2>&1
        """


rule decode:
    """Translate a test set with an average of a training."""
    input:
        binarized=STAGE / "binarize/{corpus}/record.json",
        checkpoint=STAGE / "average/{corpus}/{system}/seed{seed}/{average}.json",
        system=ancient(system_path),
    output:
        record=STAGE / "decode" / f"{EVALUATION}.json",
        hypotheses=STAGE / "decode" / f"{EVALUATION}.txt",
    params:
        decoding_digest=lambda wildcards: spec_digest(SYSTEMS[wildcards.system].decoding),
        scale=SCALE.scale,
        stage_version=STAGE_VERSIONS["decode"],
    threads: 1
    log:
        f"logs/{SCALE.scale}/decode/{EVALUATION}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/decode/{EVALUATION}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn decode \
            --scale {params.scale:q} \
            --system {wildcards.system:q} \
            --checkpoint {input.checkpoint:q} \
            --binarized {input.binarized:q} \
            --testset {wildcards.testset:q} \
            --threads {threads:q} \
            --record {output.record:q} >{log:q} 2>&1
        """


rule perplexity:
    """Measure the perplexity of an average of a training on a test set (Table 3)."""
    input:
        binarized=STAGE / "binarize/{corpus}/record.json",
        checkpoint=STAGE / "average/{corpus}/{system}/seed{seed}/{average}.json",
    output:
        record=STAGE / "perplexity" / f"{EVALUATION}.json",
    params:
        stage_version=STAGE_VERSIONS["perplexity"],
    threads: 1
    log:
        f"logs/{SCALE.scale}/perplexity/{EVALUATION}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/perplexity/{EVALUATION}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn perplexity \
            --checkpoint {input.checkpoint:q} \
            --binarized {input.binarized:q} \
            --testset {wildcards.testset:q} \
            --threads {threads:q} \
            --record {output.record:q} >{log:q} 2>&1
        """


rule score:
    """Score the translations of a test set under every definition of BLEU that applies."""
    input:
        decoded=STAGE / "decode" / f"{EVALUATION}.json",
        raw=STAGE / "fetch/{corpus}/record.json",
    output:
        record=STAGE / "score" / f"{EVALUATION}.json",
    params:
        stage_version=STAGE_VERSIONS["score"],
    log:
        f"logs/{SCALE.scale}/score/{EVALUATION}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/score/{EVALUATION}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn score \
            --decoded {input.decoded:q} \
            --raw {input.raw:q} \
            --record {output.record:q} >{log:q} 2>&1
        """


rule baselines:
    """Score what needs no training on {wildcards.testset}: what a trained system must beat."""
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
