"""Lays out Tables 2 and 3 from anybody's logs, and the list of these logs.

Wing `logs`.
"""
