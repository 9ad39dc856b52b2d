"""Compares the evidence of a training and of its translations with one of the paper's systems,
quantity by quantity.

The world is closed: a number counts for a system only if every required quantity is stated, and
equal to the system's or harmless in its difference. What is unknown, contradictory or not stated
sets the number apart, by its name.
"""
