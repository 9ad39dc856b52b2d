"""What readers claim of attention and layers, and Table 1, measured without a training; included by `has_claims`.

reads: nothing
writes: results/<scale>/measure/record.json
"""

from aiayn.claims.records import STAGE_VERSION as MEASURE_VERSION


rule measure:
    """Measure dot products, gradients, entropies, norms and initial weights on random vectors; time the layers of Table 1."""
    output:
        record=STAGE / "measure/record.json",
    params:
        seed=1,
        stage_version=MEASURE_VERSION,
    threads: 1
    log:
        f"logs/{SCALE.scale}/measure.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/measure.tsv"
    conda:
        "../../../environment.yml"
    shell:
        """
        aiayn measure \
            --seed {params.seed:q} \
            --record {output.record:q} 2>&1 | tee -i {log:q}
        """
