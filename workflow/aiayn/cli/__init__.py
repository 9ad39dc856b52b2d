"""The verbs (subcommands) of `aiayn`, one module each.

A module has a docstring, which is the text of --help, an `EXAMPLE`, a class `Flags`, and `run`. A
verb parses its flags, calls the core, and writes the result. It may import every package. Only
`aiayn.__main__` imports a verb. Torch, fairseq, sentencepiece and drawing are imported inside
`run`, because they take seconds or are not installed, and --help does not need them.
"""
