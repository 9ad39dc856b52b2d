"""Lays out the numbers of any logs in Tables 2 and 3, the list of these logs, and their page."""
