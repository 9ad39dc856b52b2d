"""Under which conditions the paper's numbers were printed."""

PAPER_SCALE = "paper"
PAPER_CORPUS_BY_LANGUAGE_PAIR = {"en-de": "wmt14_en_de", "en-fr": "wmt14_en_fr"}  # section 5.1
PAPER_TESTSET_BY_ROLE = {"dev": "newstest2013", "test": "newstest2014"}  # sections 6.1 and 6.2
# A P100 has nothing else (section 5.2), and the paper counts the cost in single precision (section 6.1, footnote 5).
PAPER_PRECISION = "fp32"
