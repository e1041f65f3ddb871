"""The node agent: one callback actor per node over a model of the machine that outlives it."""
