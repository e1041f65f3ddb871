"""Connections of API servers to programs of pods, over the simulated network."""
