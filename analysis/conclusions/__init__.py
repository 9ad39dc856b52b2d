"""Decides which conclusions of the paper hold for our systems, and compares variants with base."""
