"""Scenario files as values with their places: YAML, settings, samples, and files of other programs."""
