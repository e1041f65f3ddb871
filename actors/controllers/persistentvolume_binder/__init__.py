"""The controller that binds claims to volumes, and provisions and reclaims volumes."""
