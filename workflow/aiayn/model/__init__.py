"""The paper's model (section 3) and its loss, in plain PyTorch.

May import only torch.
"""
