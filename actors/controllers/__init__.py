"""The controller manager and its control loops.

Each loop is level-triggered: a key in a work queue stands for a difference that may exist, and a
sync reads the present state and writes what is missing. `decide` modules are pure; `table` names
every loop as `--controllers` does; `manager` runs the loops while it holds the lease.
"""
