"""The verbs of `aiayn`, one module each: `SUMMARY`, `EXAMPLE`, `add_arguments` and `run`.

A verb parses, calls and writes; the thinking is in the modules that it calls.
"""
