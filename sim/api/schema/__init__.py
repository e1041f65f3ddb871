"""Types of objects: what a kind declares, field schemas, and structural validation."""
