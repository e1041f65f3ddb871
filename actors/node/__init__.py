"""The node agent: one callback actor per node over a runtime model that outlives it."""
