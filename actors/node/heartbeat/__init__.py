"""Registration, status and lease of a node, and its shutdown."""
