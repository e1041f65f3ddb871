"""The images of a node: their names, which are present or pulled, and the removal of unused ones."""
