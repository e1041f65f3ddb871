"""The volumes of pods on a node: found behind claims, waited for, mounted and unmounted."""
