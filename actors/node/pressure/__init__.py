"""Node pressure: the eviction manager and its decisions.

A threshold that is met for its grace period sets a condition; the pods are then ranked by
upstream's order, and one is evicted a pass.
"""
