"""Training and generation logs, ours or anybody's of fairseq: read, joined into runs, checked by rules, judged."""
