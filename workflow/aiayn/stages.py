"""The stages of the workflow and their version numbers.

Snakemake does not notice when a module changes that a rule calls through its `shell:` command. So
the `params` of each rule contain the version number of its stage. Raise the version number when a
change of the code changes the output of the stage. After a version number has changed, Snakemake
runs the stage and all later stages again.
"""

STAGE_VERSIONS = {
    "fetch": 1,
    "clean": 1,
    "segment": 2,
    "binarize": 1,
    "train": 2,
    "average": 1,
    "decode": 2,
    "perplexity": 2,
    "score": 3,
    "evaluations": 1,
    "baselines": 4,
    "tables": 5,
}
# The parts of the stage `evaluations`. Records of earlier versions, when each part was a rule, do
# not state the number of their stage: these were the numbers.
EVALUATION_VERSIONS = {"average": 1, "decode": 2, "perplexity": 2, "score": 3}
