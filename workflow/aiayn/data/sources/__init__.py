"""Turns a corpus file into raw text: shipped, listed or downloaded, verified and unpacked.

May import `aiayn.data.text.lines`, `aiayn.records`, `aiayn.spec` and below.
"""
