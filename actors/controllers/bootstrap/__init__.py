"""The controllers of bootstrap tokens, both off unless `--controllers` names them.

A bootstrap token is a Secret that signs cluster-info for nodes that join; the token cleaner deletes
those that expire.
"""
