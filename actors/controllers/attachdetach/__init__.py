"""The controller that attaches the volumes of scheduled pods to their nodes.

Two tables, of what is to be attached and of what is, are compared in each pass; an attachment
counts as there until its end is confirmed, so that no volume is on two nodes at once.
"""
