"""Admission: the chain and its plugins."""
