"""Fetches a corpus: shipped, listed, or published files that are downloaded, verified and read.

May import `aiayn.data.text.lines`, `aiayn.records`, `aiayn.spec` and below.
"""
