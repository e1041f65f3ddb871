"""What the agent reports about its node: registration, status, lease, runtime, shutdown.

The lease says that the agent lives, every 10 s; the status says how the node is, when something has
changed or every 5 minutes.
"""
