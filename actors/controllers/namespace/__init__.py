"""The namespace loop: the end of a namespace and of the objects in it."""
