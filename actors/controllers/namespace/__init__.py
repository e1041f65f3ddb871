"""The namespace loop: the end of a namespace and of the objects in it.

Deletion goes by resource, found by discovery, and repeats until nothing remains; what remains, and
why, is in the conditions of the namespace.
"""
