"""The EndpointSlice loop.

Endpoints are packed so that a change touches few slices; the ready ones of a Service may get hints
that keep traffic in a zone.
"""
