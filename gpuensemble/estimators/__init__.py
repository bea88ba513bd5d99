"""The methods: one a file, or a folder of estimator and solver where it is long; `_base` has what they share.

A file here is a method: the registry finds it by being there. May import everything but `segments`, `plot` and `_cli`.
"""
