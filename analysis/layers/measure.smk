"""Times the layers of Table 1, without a training. Only scales with `has_layer_timing: true` in their
config include this rule.

reads: nothing
writes: results/<scale>/measure/record.json
"""

from analysis.layers.records import STAGE_VERSION as MEASURE_VERSION


rule measure:
    """Time the layers of Table 1 on random vectors."""
    output:
        record=STAGE / "measure/record.json",
    params:
        stage_version=MEASURE_VERSION,
    threads: 1
    log:
        f"logs/{SCALE.scale}/measure.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/measure.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn measure \
            --record {output.record:q} >{log:q} 2>&1
        """
