"""Scenario files: from YAML text to a checked plan."""
