"""The HTTP front of an API server: URLs to requests, replies to bytes.

`routing`, `negotiation`, `body`, `rendering` and `access` are plain functions over plain values;
`gateway` hands requests in at the kernel's gate, `exchange` is one request over ASGI, `app` the
application around them and `server` its listener.
"""
