"""The wings (optional packages). Each folder answers one question about finished runs or about
other people's files.

`aiayn.wings` finds the wings. A wing may import `aiayn` and `paper_tables`. A wing never imports a
different wing.
"""
