"""CustomResourceDefinitions."""
