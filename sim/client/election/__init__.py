"""Leader election over one lease, or over a lease and an older lock.

A candidate takes a lease with a record that it has seen unchanged for the lease duration by its own
clock, and gives up leading before others may take it.
"""
