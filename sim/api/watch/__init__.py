"""Watch caches: what an API server replica knows of a resource, and watches on it."""
