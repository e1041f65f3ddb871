"""Audit: which requests are recorded, the events that record them, and how events are delivered.

A policy gives each request a level; stages of the request become events.  All that is decided
without I/O is here; the other layers add their part:

    sim.options.apiserver.audit     the options, and the rules between them
    sim.app.audit.settings          options and the policy's file become the settings of a server
    actors.apiserver.audit          requests of the simulation, by each replica
    sim.wire.http.chain.audited     requests from outside, by the front
    sim.app.audit                   the backends: log, webhook, and events that requests wait for
"""
