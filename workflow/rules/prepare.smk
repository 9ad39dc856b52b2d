"""Makes fairseq's data-bin from a published corpus.

The rule `fetch` runs on the machine of snakemake (`localrule`), because the nodes of a cluster may
not have access to the internet.

reads: workflow/config/corpora/<corpus>.yaml, the network or a mirror
writes: results/<scale>/{fetch,clean,segment,binarize}/<corpus>/record.json; next to it the text or
    data-bin
"""


rule fetch:
    """Get {wildcards.corpus}: download and verify it, or generate it."""
    localrule: True
    input:
        spec=ancient(str(INPUTS / "corpora" / "{corpus}.yaml")),
    output:
        record=STAGE / "fetch/{corpus}/record.json",
    params:
        corpus_digest=corpus_digest,
        stage_version=STAGE_VERSIONS["fetch"],
    # A resource, because the mirror does not change the text. A change of `params` would repeat the
    # job.
    resources:
        mirror=SCALE.mirror or "",
    priority: TEXT_PRIORITY
    log:
        f"logs/{SCALE.scale}/fetch/{{corpus}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/fetch/{{corpus}}.tsv"
    conda:
        "../../environment.yml"
    # `--mirror=`: the value may be empty. `tee -i` ignores Ctrl-C, so that the log is complete.
    shell:
        """
        aiayn fetch \
            --corpus {wildcards.corpus:q} \
            --mirror={resources.mirror:q} \
            --record {output.record:q} 2>&1 | tee -i {log:q}
        """


rule clean:
    """Prepare text as the corpus file says, and drop unfit training pairs."""
    input:
        raw=STAGE / "fetch/{corpus}/record.json",
    output:
        record=STAGE / "clean/{corpus}/record.json",
    params:
        corpus_digest=corpus_digest,
        stage_version=STAGE_VERSIONS["clean"],
    threads: text_threads
    priority: TEXT_PRIORITY
    log:
        f"logs/{SCALE.scale}/clean/{{corpus}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/clean/{{corpus}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn clean \
            --corpus {wildcards.corpus:q} \
            --raw {input.raw:q} \
            --num-processes {threads:q} \
            --record {output.record:q} 2>&1 | tee -i {log:q}
        """


rule segment:
    """Learn the subword vocabulary of {wildcards.corpus} (section 5.1)."""
    input:
        text=STAGE / "clean/{corpus}/record.json",
    output:
        record=STAGE / "segment/{corpus}/record.json",
    params:
        corpus_digest=corpus_digest,
        stage_version=STAGE_VERSIONS["segment"],
    threads: 1
    priority: TEXT_PRIORITY
    log:
        f"logs/{SCALE.scale}/segment/{{corpus}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/segment/{{corpus}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn segment \
            --corpus {wildcards.corpus:q} \
            --text {input.text:q} \
            --record {output.record:q} 2>&1 | tee -i {log:q}
        """


rule binarize:
    """Turn the text of {wildcards.corpus} into fairseq's data-bin."""
    input:
        text=text_record,
        segmented=segment_record,
    output:
        record=STAGE / "binarize/{corpus}/record.json",
    params:
        corpus_digest=corpus_digest,
        segmented=lambda wildcards, input: (
            ["--segmented", *input.segmented] if input.segmented else []
        ),
        stage_version=STAGE_VERSIONS["binarize"],
    threads: text_threads
    priority: TEXT_PRIORITY
    log:
        f"logs/{SCALE.scale}/binarize/{{corpus}}.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/binarize/{{corpus}}.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn binarize \
            --corpus {wildcards.corpus:q} \
            --text {input.text:q} {params.segmented:q} \
            --num-processes {threads:q} \
            --record {output.record:q} 2>&1 | tee -i {log:q}
        """
