"""This is the ground: the array library at hand, devices, input as it comes from a user, random draws, threads.

It imports nothing of ours, and is the only room that names two array libraries. Start with `devices`.
"""
