"""The lab: a cluster for notebooks and the REPL, without `async`.

`portal` runs a Trio program in a thread and calls functions in it; `lab` is the synchronous face of
a cluster; `frames` turns objects into tables; `shown` are the values that a notebook draws; `recording` and
`widget` are the grid of nodes and pods over time.
"""
