"""Columnar renewals: lease renewals of many nodes, computed with arrays."""
