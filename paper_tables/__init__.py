"""The paper's printed tables, and ours beside them: `published` reads the printed strings, the rest render."""
