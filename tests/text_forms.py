"""One system's German translations in every form in which people share them, and the references as
plain text.
"""

from collections.abc import Sequence

from aiayn.data.text.tokenize_moses import tokenize_line

NOUNS = ("Das Haus", "Die Stadt", "Ein Mann", "Frau Meier", "Der Fluss", "Ein Buch")
VERBS = ("sieht", "kennt", "liest", "malt", "sucht")
PLAIN = [
    f'{noun}, so heißt es, {verb} "{number} neu-alte Häuser" in Köln & Bonn.'
    for number, noun in enumerate(NOUNS, 1)
    for verb in VERBS
]
OTHER = [
    line.replace("sieht", "sah").replace("malt", "malte") for line in PLAIN
]  # another system's


def tokens(lines: Sequence[str]) -> list[str]:
    """Return Moses' tokens, escaped."""
    return [tokenize_line(line, "de").rstrip() for line in lines]


def pieces(lines: Sequence[str]) -> list[str]:
    """Return lines with long words in two pieces."""
    return [
        " ".join(f"{word[:4]}@@ {word[4:]}" if len(word) > 5 else word for word in line.split())
        for line in lines
    ]


def sentence_pieces(lines: Sequence[str]) -> list[str]:
    """Return lines in sentencepiece's notation."""
    return [" ".join(f"\u2581{word}" for word in line.split()) for line in lines]


FORMS = {
    "tokens": tokens(OTHER),
    "tokens, hyphens split": [line.replace("neu-alte", "neu @-@ alte") for line in tokens(OTHER)],
    "tokens, not escaped": [
        line.replace("&quot;", '"').replace("&amp;", "&") for line in tokens(OTHER)
    ],
    "pieces of tokens": pieces(tokens(OTHER)),
    "pieces of plain text": pieces(OTHER),
    "sentencepiece": sentence_pieces(OTHER),
    "lower case": [line.lower() for line in OTHER],
    "all of it": [line.lower() for line in pieces(tokens(OTHER))],
}
# A log of fairseq-generate: in pieces, of tokens.
GENERATED = [
    "2020-03-26 23:20:42 | INFO | fairseq_cli.generate | loading model(s) from avg.pt",
    *(
        line
        for number in reversed(range(len(PLAIN)))  # it writes by length
        for line in (
            f"S-{number}\tsource",
            f"T-{number}\t{tokens(PLAIN)[number]}",
            f"H-{number}\t-0.5\t{pieces(tokens(OTHER))[number]}",
            f"H-{number}\t-0.9\tthe second best",
            f"P-{number}\t-0.5 -0.5",
        )
    ),
    (
        "Generate test with beam=4: BLEU4 = 27.30, 58.3/32.1/20.0/13.0 (BP=1.000, ratio=1.0,"
        " syslen=9, reflen=9)"
    ),
]
