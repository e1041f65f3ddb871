"""Node pressure: the eviction manager and its decisions."""
