"""The composition of a cluster and of a run, and the programs a user starts."""
