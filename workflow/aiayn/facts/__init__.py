"""What a run says: a log of fairseq, or a record of ours, becomes facts."""
