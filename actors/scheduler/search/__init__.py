"""The incremental search for nodes, equal to trying every node."""
