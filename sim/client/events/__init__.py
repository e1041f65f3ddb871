"""Event recording: events are written, aggregated, counted and limited."""
