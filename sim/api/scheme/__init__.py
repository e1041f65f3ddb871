"""The kinds that a server serves, found by path, group and name, and its discovery documents."""
