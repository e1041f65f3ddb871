"""The watch caches of an API server replica, and selections from them.

A list or get at resource version 0 is answered from a cache, which is some microseconds behind the
storage; a selection that an index covers reads no other object.
"""
