"""The processes of a cluster.

Each package is one kind of process, and imports no other process: processes meet only as sender and
receiver of requests, over channels or sockets. What a process decides is in pure modules; its loops
only wait, send and fail.
"""
