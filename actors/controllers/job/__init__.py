"""The Job loop.

A pod that has ended is counted once: its finalizer is removed only after the status that counts it
is written, so that no crash counts it twice or loses it.
"""
