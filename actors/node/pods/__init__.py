"""Pods on a node: admission, workers, status, probes and the end of pods."""
