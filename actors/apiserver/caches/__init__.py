"""The watch caches of an API server replica, and selections from them."""
