"""The library behind the pipeline. docs/architecture.md describes its packages. Each package
imports only packages below it.
"""
