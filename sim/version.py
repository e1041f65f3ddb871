"""The version of Orrery, as in pyproject.toml."""

__version__ = "0.2.0"
