"""Requests to a real etcd, over its gateway of JSON and HTTP.

- `messages`: the messages of its API, as far as they are used;
- `client`: requests, with failover between servers, and the watch.
"""
