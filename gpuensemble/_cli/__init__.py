"""The command line: `main` is what is run; `commands` do the work; files, demo, doctor and bench.

May import everything. Nothing imports it but `__main__`.
"""
