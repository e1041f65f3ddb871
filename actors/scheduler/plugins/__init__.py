"""Filters and scores of nodes."""
