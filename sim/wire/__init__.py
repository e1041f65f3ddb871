"""API requests over sockets and over HTTP."""
