"""Predicts what a config costs, checks what it needs, and lays out what trainings cost."""
