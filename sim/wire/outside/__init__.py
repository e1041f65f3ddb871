"""Requests to real servers outside: connections, answers, calls, and passages as they come."""
