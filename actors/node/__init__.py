"""The node agent: one callback actor per node over a model of the machine that outlives it.

The agent may crash and start again; the machine (`runtime`) keeps its containers, mounts and files
over that. What the agent does follows from the pods of its sources and from what the machine
reports, as upstream's sync loop has it.
"""
