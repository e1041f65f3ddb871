"""Admission: the chain and its plugins.

A plugin mutates an object or refuses a request, and reads other objects only by its view. The order
of the chain is upstream's, and is data.
"""
