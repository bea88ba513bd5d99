"""This room has the methods: each is a file, or a folder of estimator and solver where it is long; `_base` is shared.

The registry finds a method by its file here. A method may import everything but `segments`, `plot` and `_cli`.
"""
