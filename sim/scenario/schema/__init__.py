"""The schema of scenario files as types, and the typed values of a document.

Holds: the parameters of each action are those of its file in `sim.scenario.actions`; nothing here
knows what a value means for a cluster.
"""
