"""The listeners of the API server's front, their connections, and HTTP/1.1 and HTTP/2 on them."""
