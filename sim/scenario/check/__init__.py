"""Checks of a scenario that need more than one field: references, pods and windows."""
