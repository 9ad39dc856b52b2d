"""Uses a trained run: searches, evaluates, packs and exports it; times Table 1's layers."""
