"""Requests to real servers outside: connections, answers, calls, and passages as they come.

What a stranger's server sends is untrusted: each answer is bounded in bytes and in time, and a
failure is that of one request.
"""
