"""Metrics: the families that exist, and how numbers become series of them."""
