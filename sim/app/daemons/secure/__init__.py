"""The secure port of a controller manager or a scheduler that runs alone.

- `reviews`: questions to the API server about tokens and rights;
- `trust`: the authorities of clients and of front proxies, from files or from the cluster;
- `access`: the user of a request, and whether that user may send it;
- `pages`: health, metrics, configuration, profiles and verbosity;
- `port`: the listener, and what it is made of.

A failure shows in `tests/cluster/daemons/test_secure_port.py`: a page without a check of
rights, a client of the API server that is refused here.
"""
