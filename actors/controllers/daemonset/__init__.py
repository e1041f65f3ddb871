"""The DaemonSet loop.

Each node is judged by the same filters as a scheduler's; a pod that is missing is created with an
affinity to its node, and the scheduler binds it.
"""
