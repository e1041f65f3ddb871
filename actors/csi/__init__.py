"""The processes of simulated storage drivers: one of each driver, which acts on the API's objects.

What a node does for a driver, the mounting, is part of the node agents.
"""
