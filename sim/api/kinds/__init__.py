"""Rules of each kind: its row in the resource table, strategy, defaults, columns and validation."""
