"""The HTTP front of an API server: URLs to requests, replies to bytes.

`fronts` accepts connections and speaks HTTP, and `app` takes a request from there to its response.
`routing`, `options`, `forms` and `identity` turn its parts into values.  `gateway` hands requests
in at the kernel's gate; `documents` and `pages` answer the paths that are no resources.
"""
