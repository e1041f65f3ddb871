"""Components that run alone: one process each, against any conformant API server.

`orch-controller-manager` and its like are the same actors as in a cluster, over HTTPS and on the
wall clock.  What differs from a cluster is here: command lines, log files, signals and ports.

- `flags`: a command line by pflag's rules to the options of a program;
- `programs`: what each program is: its options, in groups, and its composition;
- `commands`: the entry point: help, version, errors and exit status; `deprecations`: its warnings;
- `clock`: the clock of a served cluster that a process follows;
- `process`: a kernel on the wall clock with one actor, its clients, signals and end;
- `logs`: what a process logs, as klog writes it; `happenings`: messages about its actor;
- `options`: raw values, and the files that they name, to typed options;
- `connection`: the options about the API server to its credentials;
- `certificates`, `serving_tls`: the certificate of a server, and its TLS, which follows the files;
- `durable`, `group_commit`: the data directory of an API server;
- `metrics_apis`: which metrics APIs a controller manager may ask;
- `secure`: the secure port of a controller manager or a scheduler;
- `api_server` with the folder `apiserver`, `controller_manager`, `scheduler`: what each is made of.

A failure shows in `tests/cluster/daemons`: a Deployment that nothing scales, a lease without a
holder, a process that does not end, an error without its option.
"""
