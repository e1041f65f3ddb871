"""An API server's start, connection to the storage, and graceful termination."""
