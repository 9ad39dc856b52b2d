"""Answers to one question: explain a number, where it is from, compare two outputs, what the doctor found.

May import all else of `paper_tables`.
"""
