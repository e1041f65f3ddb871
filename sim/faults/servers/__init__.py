"""Faults of API servers and of their storage."""
