"""Custom resources: definitions, structural schemas, and objects of custom kinds.

A definition's schema becomes the schema of a kind, with defaults, pruning, list types and
validation rules; from there on a custom kind passes the same verbs as a fixed one.
"""
