"""From records to judgements: scores, then means over seeds, then a verdict on each printed number."""
