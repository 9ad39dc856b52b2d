"""What the rules share: the scale, the paths of records, and the digests that decide what is stale.

reads: the merged config, workflow/config/{trainings,systems,corpora,clusters}
writes: nothing
"""

import re
from os.path import relpath

from aiayn import paths
from aiayn.cost import flops_per_token, target_tokens_per_full_update
from aiayn.errors import AiaynError
from aiayn.experiment import read_experiment
from aiayn.spec.cluster import read_cluster
from aiayn.spec.corpus import ShippedSource
from aiayn.spec.system import CONFIG_FOLDER, convert_scale, read_system, spec_digest
from aiayn.stages import EVALUATION_VERSIONS, STAGE_VERSIONS
from snakemake.exceptions import WorkflowError

RESULTS = Path("results")
# Relative to the working directory, so that inputs keep their paths in a moved checkout.
INPUTS = Path(relpath(CONFIG_FOLDER))
# The whole config is read here, once. A fault in it ends with its message, without a traceback.
try:
    SCALE = convert_scale(config, origin="the config given to snakemake")
    EXPERIMENT = read_experiment(SCALE)
    read_cluster(SCALE.cluster)  # `train` reads it again, but hours later
    if workflow.is_main_process:  # not again in each job on a cluster
        EXPERIMENT.require_kept(RESULTS)
except AiaynError as error:
    raise WorkflowError(str(error)) from None
CORPORA, SYSTEMS = EXPERIMENT.corpora, EXPERIMENT.system_by_name
STAGE = RESULTS / SCALE.scale


# Without these a wildcard also matches `/`, and one path could fit several rules.
wildcard_constraints:
    corpus="|".join(CORPORA),
    system="|".join(SYSTEMS),
    seed=r"\d+",
    testset="|".join(
        sorted({re.escape(testset) for corpus in CORPORA.values() for testset in corpus.testsets})
    ),


def corpus_path(verb, corpus):
    """Return the record of a data stage."""
    return str(paths.corpus_record(RESULTS, SCALE.scale, verb, corpus))


def text_threads(wildcards):
    """Return the cores for a corpus's text. A shipped corpus is small and needs one."""
    return 1 if isinstance(CORPORA[wildcards.corpus].source, ShippedSource) else 16


def system_path(wildcards):
    """Return a system's file.

    Rules take it as `ancient`. A digest of its parsed values is in `params`.
    """
    return str(INPUTS / "systems" / SCALE.scale / f"{wildcards.system}.yaml")


def override_flags(wildcards):
    """Return flags for the values that the scale changes.

    A value that the scale does not change has no flag. The command then stays the same, and
    Snakemake does not repeat the training.
    """
    # The system's own file, without the overrides: only then it shows which values differ.
    return SCALE.overrides.flags(read_system(wildcards.system, SCALE.scale).training)


def training_flops(system):
    """Return about how much a training of a system computes, in no particular unit."""
    training = SYSTEMS[system].training
    tokens = training.updates * target_tokens_per_full_update(training)
    return tokens * flops_per_token(training, 0)


# Of the jobs that could begin, the highest priority begins first: text, then evaluations, which
# are short, then trainings, the longest first, and last what only the tables wait for. So no core is
# idle at the end, next to a long training.
TEXT_PRIORITY, EVALUATIONS_PRIORITY = 3, 2
MOST_FLOPS = max(map(training_flops, SYSTEMS), default=1)


def training_priority(wildcards):
    """Return a training's priority, at most 1."""
    return training_flops(wildcards.system) / MOST_FLOPS


def beginning_record(wildcards):
    """Return the record of the training that a system continues, with the same seed.

    Most systems begin at update 0: the list is empty.
    """
    system = SYSTEMS[wildcards.system].begins_from
    if system is None:
        return []
    return str(
        paths.train_record(RESULTS, SCALE.scale, wildcards.corpus, system, int(wildcards.seed))
    )


def corpus_digest(wildcards):
    """Return the digest of a corpus's parsed values. Editing a comment does not change it."""
    return spec_digest(CORPORA[wildcards.corpus])


def text_record(wildcards):
    """Return the record of the text for binarize: clean's, or fetch's if the text is in pieces."""
    return corpus_path(
        "fetch" if CORPORA[wildcards.corpus].is_segmented else "clean", wildcards.corpus
    )


def segment_record(wildcards):
    """Return segment's record in a list, which is empty if the text comes in pieces."""
    return (
        [] if CORPORA[wildcards.corpus].is_segmented else [corpus_path("segment", wildcards.corpus)]
    )


def evaluation_words(wildcards, *, needs_perplexity):
    """Return a training's evaluations, as last5/demo_test: all, or those with a perplexity."""
    return [
        f"{evaluation.average}/{evaluation.testset}"
        for evaluation in EXPERIMENT.evaluations_of_training(
            wildcards.corpus, wildcards.system, int(wildcards.seed)
        )
        if evaluation.has_perplexity or not needs_perplexity
    ]


def perplexity_flags(wildcards):
    """Return the flag of the evaluations with a perplexity, [] if a training has no such."""
    words = evaluation_words(wildcards, needs_perplexity=True)
    return ["--perplexity", *words] if words else []
