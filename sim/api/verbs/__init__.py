"""The verbs of the API as generators of store operations."""
