"""The ground: the array library at hand, devices, input as it comes from a user, random draws, threads.

Imports nothing of ours. It is the only room that names two array libraries. Start with `devices`.
"""
