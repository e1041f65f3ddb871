"""The controller that binds claims to volumes, and provisions and reclaims volumes.

A binding is two writes, the volume's reference first; after a crash, the half that was written
shows what the other was to be.
"""
