"""Defines what all rules use: the scale, the paths of records, and the digests by which Snakemake
sees which outputs are out of date.

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
# Relative to the working directory, so that the inputs have the same paths in a moved checkout.
# Snakemake would otherwise make everything again.
INPUTS = Path(relpath(CONFIG_FOLDER))
# The whole config is read here, once. A mistake in it ends with its message, without a traceback.
try:
    SCALE = convert_scale(config, origin="the config given to snakemake")
    EXPERIMENT = read_experiment(SCALE)
    # `train` reads the cluster's file hours later. Here a mistake in it is reported at once.
    read_cluster(SCALE.cluster)
    # Each job on a cluster reads this file again. The main process has then checked the results.
    if workflow.is_main_process:
        EXPERIMENT.require_kept(RESULTS)
except AiaynError as error:
    raise WorkflowError(str(error)) from None
CORPORA, SYSTEMS = EXPERIMENT.corpora, EXPERIMENT.system_by_name
STAGE = RESULTS / SCALE.scale


# Without constraints a wildcard also matches `/`, and a path could fit several rules.
wildcard_constraints:
    corpus="|".join(CORPORA),
    system="|".join(SYSTEMS),
    seed=r"\d+",
    testset="|".join(
        sorted({re.escape(testset) for corpus in CORPORA.values() for testset in corpus.testsets})
    ),


def corpus_path(verb, corpus):
    """Return the path of the record that a data stage writes for a corpus."""
    return str(paths.corpus_record(RESULTS, SCALE.scale, verb, corpus))


def text_threads(wildcards):
    """Return the number of cores for the stages that prepare the text of a corpus. It is 1 for a
    corpus that comes with this project, because such a corpus is small.
    """
    return 1 if isinstance(CORPORA[wildcards.corpus].source, ShippedSource) else 16


def system_path(wildcards):
    """Return the path of a system's file.

    In rules this file is an `ancient` input, so a newer time of the file does not repeat a job. The
    digest of the file's parsed values is in `params`, so a changed value repeats the job.
    """
    return str(INPUTS / "systems" / SCALE.scale / f"{wildcards.system}.yaml")


def override_flags(wildcards):
    """Return flags for the training settings that the scale overrides.

    A setting that the scale does not change has no flag. So the command of the rule stays the same,
    and Snakemake does not repeat the training.
    """
    # Read without the overrides, to see which values differ.
    return SCALE.overrides.flags(read_system(wildcards.system, SCALE.scale).training)


def training_flops(system):
    """Return the approximate number of floating-point operations of a system's training, only to
    compare trainings.
    """
    training = SYSTEMS[system].training
    tokens = training.updates * target_tokens_per_full_update(training)
    return tokens * flops_per_token(training, 0)


# Of the jobs that can begin, Snakemake starts the job of the highest priority: text first, then
# evaluations, which are short, then trainings, the longest first, and last the jobs that only the
# tables need. Otherwise a long training could run alone at the end, while the other cores are idle.
TEXT_PRIORITY, EVALUATIONS_PRIORITY = 3, 2
MOST_FLOPS = max(map(training_flops, SYSTEMS), default=1)


def training_priority(wildcards):
    """Return the priority of a training for Snakemake: 1 for the longest training, less for shorter
    trainings.
    """
    return training_flops(wildcards.system) / MOST_FLOPS


def beginning_record(wildcards):
    """Return the path of the record of the training that a system continues, with the same seed.

    For a system that begins at update 0, as most systems do, the result is an empty list.
    """
    system = SYSTEMS[wildcards.system].begins_from
    if system is None:
        return []
    return str(
        paths.train_record(RESULTS, SCALE.scale, wildcards.corpus, system, int(wildcards.seed))
    )


def corpus_digest(wildcards):
    """Return the digest of the parsed values in a corpus file. Editing a comment in the file does
    not change the digest.
    """
    return spec_digest(CORPORA[wildcards.corpus])


def text_record(wildcards):
    """Return the path of the record of the text that `binarize` reads. The verb `clean` writes it
    or, for a corpus that is published already split into subwords, the verb `fetch`.
    """
    return corpus_path(
        "fetch" if CORPORA[wildcards.corpus].is_segmented else "clean", wildcards.corpus
    )


def segment_record(wildcards):
    """Return a list with the path of the record that the verb `segment` writes. The list is empty
    for a corpus that is published already split into subwords.
    """
    return (
        [] if CORPORA[wildcards.corpus].is_segmented else [corpus_path("segment", wildcards.corpus)]
    )


def evaluation_words(wildcards, *, needs_perplexity):
    """Return the evaluations of a training, such as last5/demo_test. With `needs_perplexity`,
    return only the evaluations that measure a perplexity.
    """
    return [
        f"{evaluation.average}/{evaluation.testset}"
        for evaluation in EXPERIMENT.evaluations_of_training(
            wildcards.corpus, wildcards.system, int(wildcards.seed)
        )
        if evaluation.has_perplexity or not needs_perplexity
    ]


def perplexity_flags(wildcards):
    """Return the flag `--perplexity` and the evaluations that measure a perplexity, or [] if there
    are no such evaluations.
    """
    words = evaluation_words(wildcards, needs_perplexity=True)
    return ["--perplexity", *words] if words else []
