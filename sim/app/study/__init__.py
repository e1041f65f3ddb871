"""Studies: many seeds and varied settings, in worker processes or on Dask, and their reports."""
