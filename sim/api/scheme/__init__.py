"""The kinds that a server serves, found by path, group and name, and its discovery documents.

A path finds a resource, a group and kind find it too, and the discovery documents list what is
there; custom kinds are added to the fixed ones.
"""
