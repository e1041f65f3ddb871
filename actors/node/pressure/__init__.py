"""Node pressure: forecasts of what a machine has left, and evictions."""
