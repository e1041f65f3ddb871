"""Patches: JSON patch, merge patch and strategic merge patch.

Each kind of patch is a function from an object and a patch to an object; none knows of defaults,
admission or storage.
"""
