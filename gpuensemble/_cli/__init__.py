"""This room has the command line: `main` is what is run; `commands` do the work; files, demo, doctor and bench help.

It may import everything. Nothing imports it but `__main__`.
"""
