"""The library behind the pipeline: one verb a stage, from corpus to paper table (see workflow/README.md)."""
