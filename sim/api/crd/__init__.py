"""Custom resources: definitions, structural schemas, and objects of custom kinds."""
