"""Kinds of the group rbac.authorization."""
