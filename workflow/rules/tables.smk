"""Makes the paper's tables, and one page with all tables, from the records of a scale.

reads: results/<scale>/{train,evaluations,score,perplexity,baselines,measure}/...
writes: results/<scale>/{scores,summary,verdicts}.tsv, results/<scale>/{tables,figures}/,
    results/<scale>/report.html

`snakemake --report FILE` collects the outputs that are marked `report(...)`, with the captions in
workflow/report/.
"""

import json

import msgspec

from aiayn.spec.sheet import sheet_text
from aiayn.spec.system import PLACE


rule tables:
    """Render the paper's tables and figures with our numbers."""
    localrule: True
    input:
        [str(path) for path in EXPERIMENT.records(RESULTS, is_declared=True)],
    output:
        report=report(
            STAGE / "report.html",
            category="Page",
            caption="../report/page.rst",
        ),
        scores=STAGE / "scores.tsv",
        summary=report(
            STAGE / "summary.tsv",
            category="Numbers",
            caption="../report/summary.rst",
        ),
        verdicts=report(
            STAGE / "verdicts.tsv",
            category="Numbers",
            caption="../report/verdicts.rst",
        ),
        tables=report(
            directory(STAGE / "tables"),
            patterns=["{table}.html"],
            category="Tables",
            caption="../report/tables.rst",
        ),
        figures=report(
            directory(STAGE / "figures"),
            patterns=["{figure}.svg"],
            category="Figures",
            caption="../report/figures.rst",
        ),
    params:
        results=lambda wildcards, output: Path(output.report).parents[1],
        # Without the keys that only decide where trainings run and where files are.
        scale_digest=spec_digest(msgspec.structs.replace(SCALE, **PLACE)),
        # The sheet decides which trainings count, so an edited sheet repeats the job.
        sheet=sheet_text(EXPERIMENT.rows),
        stage_version=STAGE_VERSIONS["tables"],
    resources:
        # The whole merged config, for the verb. It is a resource, because a change of any `params`
        # would repeat the job, and only the values above change the tables.
        config_json=json.dumps(config, sort_keys=True),
    log:
        f"logs/{SCALE.scale}/tables.log",
    benchmark:
        f"benchmarks/{SCALE.scale}/tables.tsv"
    conda:
        "../../environment.yml"
    shell:
        """
        aiayn tables \
            --config-json {resources.config_json:q} \
            --results {params.results:q} 2>{log:q}
        """
