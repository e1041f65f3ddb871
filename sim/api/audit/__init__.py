"""Audit: which requests are recorded, the events that record them, and how events are delivered."""
