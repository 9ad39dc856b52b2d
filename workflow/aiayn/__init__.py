"""The library behind the pipeline: packages as in docs/architecture.md, each importing only those
below it.
"""
