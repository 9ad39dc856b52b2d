"""Answers whether the difference between two system outputs is significant.

Wing `questions`.
"""
