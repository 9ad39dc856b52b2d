"""Predicts what the trainings of a config cost, checks what they need, and lays out what finished
trainings cost.
"""
