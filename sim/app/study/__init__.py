"""Studies: many seeds and varied settings, in worker processes or on Dask, and their reports.

A study is a list of runs that differ in seeds or settings; each runs in a worker process, and
results are in the order of the list.
"""
