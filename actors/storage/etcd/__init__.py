"""A real etcd as the storage of an API server that runs alone.

- `keys`: keys of a store to keys of etcd, and back;
- `values`: objects to values as upstream stores them, and back;
- `encryption`: values at rest;
- `requests`: operations to requests of etcd, and its responses to answers;
- `mirror`: the store in memory that follows etcd's watch;
- `upkeep`, `masters`: leases, compaction, and the addresses of API servers;
- `process`: the storage process that API servers use.

The bytes to and from etcd are carried by `sim.wire.etcd`.  A failure shows in
`tests/cluster/daemons/test_etcd_server.py`: objects that another server does not see, a write over
a newer state, a watch that misses a change.
"""
