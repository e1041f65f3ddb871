"""Watch caches: what an API server replica knows of a resource, and watches on it.

A cache is a position in the log of commits; a watch is a cursor on it. What is older than the
window of the cache is gone, and a watch from there gets 410 Expired.
"""
