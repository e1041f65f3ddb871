"""Scenario files as typed values: YAML with places, settings and the schema."""
