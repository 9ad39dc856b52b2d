"""The tables of the wing (optional package) `layers`."""
