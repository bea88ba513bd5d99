"""Tables in files: text, packed or not, whose names and ids are told by evidence, Parquet, arrays, and cells.

Start with `files`, which reads them; `matching` puts rows of several together, `outputs` writes.
"""
