"""Shows from which runs a number in a table is computed."""
