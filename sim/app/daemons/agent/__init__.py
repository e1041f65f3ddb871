"""A node agent that runs alone, with the machine that is simulated under it.

The agent is that of a cluster; its process is its machine too, so that the end of the process is a
loss of power, and the next start a machine with an empty disk.

- `composition`: options to a process;
- `access`: client configurations to credentials, with the certificates in a folder;
- `certificates`: keys and certificates that the agent gets, as files;
- `machine`: the simulated machine, its addresses and the network of its pods;
- `manifests`: the folder of static pods on the user's machine.

A failure shows in `tests/cluster/daemons/test_node_agent.py`.
"""
