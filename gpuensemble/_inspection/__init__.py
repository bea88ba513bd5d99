"""This room looks at a consensus beside the partitions it was made of: names, stability, and labels for holes.

It may import all rooms before it, estimators too. Start with `inputs`.
"""
