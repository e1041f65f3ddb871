"""Kinds of the group internal.apiserver, which is off by default."""
