"""The StatefulSet loop.

Pods have ordinals: they are created upwards and deleted downwards, one at a time unless the policy
is Parallel, and each keeps its claims.
"""
