"""Answers to one question each: explain a number, trace a cell, compare two outputs, print a diagnosis.

May import all else of `paper_tables`.
"""
