"""The paper's model (section 3) and its loss, in plain PyTorch.

This package may import only torch and the standard library.
"""
