"""Volumes of all kinds: which one suits a claim, their names, and in-tree volumes as CSI volumes."""
