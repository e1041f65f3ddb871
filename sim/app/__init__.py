"""The composition of a cluster and of a run, and the programs a user starts.

`cluster` makes the parts and connects them; `run` runs a plan and judges it; `serving` puts the
cluster behind the real API. Only this layer knows files, processes and the terminal.
"""
