"""Transports of the client: channels in the process, their watches, and the rate limit."""
