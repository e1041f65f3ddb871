"""Faults of the messages between hosts."""
