"""API server replicas.

A replica has no state that its storage does not have, besides watch caches and counters, so that a
crash loses nothing that was answered. A request passes authorization, limits and seats here, and
its verb (`sim.api.verbs`) says what it does.
"""
