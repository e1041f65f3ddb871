"""Aggregation: group versions that other servers answer, their availability, order and headers."""
