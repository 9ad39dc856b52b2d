"""Uses a trained run: evaluates, packs and exports it; times Table 1's layers."""
