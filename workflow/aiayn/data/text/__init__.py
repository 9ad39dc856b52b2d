"""From raw text to ids: cleaned, tokenised, split in pieces and binarized, in shards, in memory that does not grow."""
