"""The options of the node agent, its addresses, and the options that it refuses with a reason."""
