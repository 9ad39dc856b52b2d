"""The rule by which a difference between two systems of ours holds, a wing.

May import `aiayn.scoring`.
"""
