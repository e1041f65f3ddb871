"""Decisions of the example controllers."""
