"""Local views of resources: list and watch, informers, and their indexes."""
