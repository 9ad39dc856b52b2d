"""Prints remarks of `aiayn evaluate`. The verb and the modules that load torch share it."""

import sys


def say(words: str) -> None:
    """Print a remark for the user to standard error."""
    print(f"aiayn evaluate: {words}", file=sys.stderr)
