"""Gives the limits by which a training did not start: its decoder reads all source tokens alike
(decision 0009).
"""

UNIFORM_ENTROPY = 0.98  # over log S; the lowest head of every decoder layer is above it
UNIFORM_BITS = 0.05  # a subword: making all weights of cross-attention equal costs less
