"""Defines the limits by which a training counts as failed to start: the model did not learn to use
the source (decision 0009).

In a training that failed to start, the decoder attends to all source tokens equally.
"""

# The lowest entropy of any cross-attention head, over log S, is above this limit.
UNIFORM_ENTROPY = 0.98
# Making all weights of cross-attention equal costs fewer bits per subword than this limit.
UNIFORM_BITS = 0.05
