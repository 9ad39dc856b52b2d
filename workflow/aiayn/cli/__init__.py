"""The verbs of `aiayn`, one module each: a docstring for its --help, `EXAMPLE`, its `Flags` and
`run`.

A verb parses, calls, writes. It may import every package. Only `aiayn.__main__` imports a verb.
Torch, fairseq, sentencepiece and drawing are imported inside `run`, because they take seconds or
are not installed, and --help does not need them.
"""
