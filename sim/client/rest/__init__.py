"""Transports of the client: channels in the process, their watches, and the rate limit.

A transport delivers a request and its reply or watch; the limiter decides when a client may send,
as pure arithmetic on times.
"""
