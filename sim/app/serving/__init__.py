"""The simulated cluster behind the real API, and the journal of what it served."""
