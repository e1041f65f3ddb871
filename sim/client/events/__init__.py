"""Event recording: events are written, aggregated, counted and limited.

Equal events are counted in one object, similar ones are combined, and a source that writes too many
is cut off, as upstream's correlator does.
"""
