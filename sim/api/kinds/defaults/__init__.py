"""Defaults of kinds: values of fields that a client left out."""
