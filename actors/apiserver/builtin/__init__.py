"""Objects that the API server makes and maintains itself."""
