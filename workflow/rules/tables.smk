"""From all records of a scale to the paper's tables and one page.

reads: results/<scale>/{train,score,perplexity,baselines}/...
writes: results/<scale>/{scores,summary,verdicts}.tsv, results/<scale>/tables/, results/<scale>/report.html
"""

import json


rule tables:
    """Render the paper's tables with ours beside them."""
    localrule: True
    input:
        [str(path) for path in required_records(SCALE, RESULTS)],
    output:
        STAGE / "report.html",
        STAGE / "scores.tsv",
        STAGE / "summary.tsv",
        STAGE / "verdicts.tsv",
        directory(STAGE / "tables"),
    params:
        config_json=json.dumps(config, sort_keys=True),
        stage_version=STAGE_VERSIONS["tables"],
    log:
        f"logs/{SCALE.scale}/tables.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/tables.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn tables \
            --config-json {params.config_json:q} \
            --results {RESULTS:q} 2>&1 | tee {log:q}
        """
