"""What is asked for: systems, corpora, clusters and hardware, read strictly from workflow/config/.

May import `aiayn.errors` alone.
"""
