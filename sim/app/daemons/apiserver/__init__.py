"""An API server that runs alone: how it is reached, what it reaches, and how it ends.

- `composition`: the parts of a cluster that it has, and its connections;
- `agents`: requests to the agents of nodes, and to programs behind proxies;
- `listening`: its sockets;
- `authorities`: the authorities of clients, as their files are now;
- `ending`: from the first signal to the last answer;
- `requests`: the lines of its log about requests;
- `etcd`: a real etcd as its storage.
"""
