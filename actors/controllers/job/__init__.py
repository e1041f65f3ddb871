"""The Job loop."""
