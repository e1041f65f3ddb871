"""SPDY/3.1, as far as clients of commands and ports use it.  Without I/O.

`frames` turns bytes into frames and back, with compressed headers; `session` keeps the streams of
one connection on the server's side.
"""
