"""What the rules share: the scale, the paths of records, and the digests that decide what is stale.

reads: the merged config, workflow/config/{systems,corpora}
writes: nothing
"""

from aiayn import paths
from aiayn.spec import CONFIG_FOLDER, convert_scale, read_corpus, read_system, spec_digest
from aiayn.stages import STAGE_VERSIONS
from paper_tables.evaluations import expand_trainings, read_corpora, required_records, used_corpora
from paper_tables.published import largest_average

SCALE = convert_scale(config, origin="the config given to snakemake")
RESULTS = Path("results")
STAGE = RESULTS / SCALE.scale
CORPORA = read_corpora(SCALE)
TESTSETS = sorted({testset for corpus in CORPORA.values() for testset in corpus.testsets})


wildcard_constraints:
    corpus="|".join(CORPORA),
    system="|".join(sorted({training.system for training in expand_trainings(SCALE)})),
    seed=r"\d+",
    average=r"last\d+",
    testset="|".join(TESTSETS),


def corpus_path(verb, corpus):
    """Return the record of a data stage."""
    return str(paths.corpus_record(RESULTS, SCALE.scale, verb, corpus))


def system_path(wildcards):
    """Return a system's file; rules take it as `ancient`, and its parsed values as a digest in `params`."""
    return str(CONFIG_FOLDER / "systems" / SCALE.scale / f"{wildcards.system}.yaml")


def corpus_digest(wildcards):
    """Return the digest of a corpus's parsed values: a comment edited changes nothing, a value does."""
    return spec_digest(CORPORA[wildcards.corpus])


def text_record(wildcards):
    """Return the record of the text that binarize reads: clean's, or fetch's where the text comes in pieces."""
    verb = "fetch" if CORPORA[wildcards.corpus].is_segmented else "clean"
    return corpus_path(verb, wildcards.corpus)


def segment_record(wildcards):
    """Return segment's record as a list, which is empty where the text comes in pieces."""
    is_segmented = CORPORA[wildcards.corpus].is_segmented
    return [] if is_segmented else [corpus_path("segment", wildcards.corpus)]
