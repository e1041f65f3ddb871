"""Compact items: stored objects at rest, packed as a shared shape and values."""
