"""This room writes what is known of a consensus into one HTML file: tables and pictures, nothing from elsewhere.

It may import everything but `_cli`. Start with `report`.
"""
