"""Arranges the numbers of any logs as Tables 2 and 3, and makes their list and page."""
