"""OpenAPI documents of the served kinds."""
