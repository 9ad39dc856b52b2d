"""Lays out what anybody's logs add to Tables 2 and 3, the list of these logs, and their page."""
