"""Kinds of the group certificates."""
