"""The incremental search for nodes, equal to trying every node.

Equal pods get equal results from plugins: a class of pods remembers them for each node, and a
change of a node or of a pod forgets only what depended on it.
"""
