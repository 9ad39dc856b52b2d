"""Turns a corpus file into raw text. The text is part of the checkout or is downloaded, verified
and unpacked.

May import `aiayn.data.text.lines`, `aiayn.records`, `aiayn.spec` and the packages of lower layers.
"""
