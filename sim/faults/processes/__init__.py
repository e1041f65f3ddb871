"""Faults of processes: crash, pause, slowness, a wrong clock, a lost lease."""
