"""The verbs of `aiayn`, one module each: a docstring for its --help, `EXAMPLE`, `add_arguments` and `run`.

A verb parses, calls and writes; the thinking is in the modules that it calls. These it imports at its top, but for the
engine, sentencepiece and drawing: they take seconds, or are not installed, and --help needs none of them.
"""
