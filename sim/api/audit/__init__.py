"""Audit: which requests are recorded, the events that record them, and how events are delivered.

A policy gives each request a level; stages of the request become events. The sinks are in
`sim.app.audit`.
"""
