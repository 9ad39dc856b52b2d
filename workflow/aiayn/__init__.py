"""The library behind the pipeline. docs/architecture.md describes its packages. Each package
imports only packages that are below it in the table of docs/architecture.md.
"""
