"""Defines the limits that tell whether a training failed to start (decision 0009).

The decoder of such a training attends to all source tokens equally.
"""

# The lowest entropy of any cross-attention head, over log S, is above this limit.
UNIFORM_ENTROPY = 0.98
# Making all weights of cross-attention equal costs fewer bits per subword than this limit.
UNIFORM_BITS = 0.05
