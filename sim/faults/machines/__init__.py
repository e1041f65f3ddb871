"""Faults of nodes: power, kernel, resources, static pods, and the programs in containers."""
