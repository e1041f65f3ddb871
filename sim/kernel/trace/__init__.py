"""The trace of a run: its records and their hash, and trace files read back."""
