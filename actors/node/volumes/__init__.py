"""The volumes of pods on a node: found behind claims, waited for, mounted and unmounted.

Two tables, of what pods need and of what is mounted, are compared in each pass; a pod starts when
all that it needs is mounted.
"""
