"""Gets the raw text that a corpus file (YAML) describes. The text of a corpus is part of the
checkout, or it is downloaded, verified and unpacked.

This package may import `aiayn.data.text.lines`, `aiayn.records`, `aiayn.spec` and packages below
these.
"""
