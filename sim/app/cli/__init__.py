"""The `orrery` command."""
