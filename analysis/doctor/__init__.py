"""Why a run's BLEU is missing: a run's log, data-bin and hypotheses beside the spec of the system it claims to be."""
