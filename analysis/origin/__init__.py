"""Shows which runs a number of a table comes from."""
