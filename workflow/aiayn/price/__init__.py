"""Predicts what a config will take: hours, money, disk and memory, and checks what it needs before it is started.

Wing `price`. May import everything of the core below the verbs.
"""
