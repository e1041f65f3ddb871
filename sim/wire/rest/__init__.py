"""API servers over HTTPS: a `Transport` for clients with any conformant API server.

A process that runs alone (a controller manager, a scheduler, a node agent) sends its requests as
REST, with the credentials of a client configuration, and receives replies and watches.

- `addresses`: a `Request` to method, path, query and body;
- `answers`: the bytes of an answer or of a watch to a `Reply` or to events;
- `access`: a client configuration to an address, certificates and credentials;
- `exec_plugins`: credentials from a command of the user;
- `tokens`: tokens of service accounts, for controllers that use accounts of their own;
- `failures`: an error of the connection to a reason, and to one line with a remedy;
- `transport`: calls on their way, and the gate through which everything that arrives enters.

A failure shows in `tests/contract`, which runs the same actors over every transport and compares
the contents of the storage at the end.
"""
