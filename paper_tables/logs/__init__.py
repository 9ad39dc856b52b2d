"""Arranges the numbers in any fairseq logs as Tables 2 and 3, and makes a list of the logs and a
page.
"""
