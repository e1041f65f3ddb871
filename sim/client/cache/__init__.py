"""Local views of resources: list and watch, informers, and their indexes.

A reflector lists, then watches from the revision of the list, and starts again when the watch ends
or expires; an informer applies the events and calls handlers with the old and the new object.
"""
