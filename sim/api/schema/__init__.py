"""Types of objects: field schemas, the scheme of served kinds, and structural validation."""
