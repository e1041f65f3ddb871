"""What the agent of a node serves to API servers: logs, and streams to containers.

`logs` answers a request for a log; `sessions` opens and ends streams, of which `sessions` knows the
kinds: `following` for logs, `commands` for exec and attach, `ports` for port-forward.

Nothing here is imported before a client asks.
"""
