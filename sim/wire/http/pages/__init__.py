"""The pages of an API server that are no resources, one module each."""
