"""Computes the learning rate of the paper's section 5.3, equation (3)."""


def learning_rate(step: int, *, d_model: int, warmup_steps: int) -> float:
    """Return the learning rate d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    `step` counts optimiser steps from 1. The first update uses the learning rate of step 1, which
    is above 0, as in tensor2tensor v1.0.4.
    """
    if step < 1:
        raise ValueError(f"step {step}: equation (3) counts from 1")
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
