"""The documents that the servers of an agent show, each a function of the agent's present state."""
