"""Aggregated APIs: which services answer, their documents, and their watches.

A request for such a group version is passed through to the service; whether the service is
available is a condition that each replica finds out by itself.
"""
