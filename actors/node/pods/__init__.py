"""Pods on a node: workers, status, probes and their end."""
