"""The roles and bindings that every cluster starts with, and how a starting server tops them up."""
