"""An API server's start, connection to the storage, and graceful termination.

Each of them is a state that a request meets: a server without storage answers nothing that must be
written, and one that ends answers what it has begun.
"""
