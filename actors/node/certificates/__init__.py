"""The certificates of a node agent: its first one, and those that replace it before it expires.

The authorities, the approval and the signing are those of the cluster's controllers.
"""
