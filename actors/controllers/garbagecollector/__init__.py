"""The garbage collector.

An object is deleted when all of its owners are absent, which a live read confirms before the
delete. A foreground deletion waits for the dependents that block it.
"""
