"""The network of pods: sockets, the fabric between nodes, virtual addresses, names, HTTP.

Holds: nothing here opens a socket of the user's machine.
"""
