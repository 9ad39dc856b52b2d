"""The verbs (subcommands) of `aiayn`, one module each.

The module of a verb has a docstring, which is the text of --help, an `EXAMPLE`, a class `Flags`,
and a function `run`. A verb parses its flags, calls the core, and writes the result. The module of
a verb may import every package. Only `aiayn.__main__` imports the module of a verb. Torch, fairseq,
sentencepiece and the drawing library are imported inside `run`, because they take seconds to import
or may not be installed, and --help does not need them.
"""
