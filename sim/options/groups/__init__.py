"""Groups of options that several daemons have: each option is declared once, in its group.

A daemon's options class derives from the groups that it has, and gives a default of its own by
`with_default`.  Upstream's component-base and apiserver divide the options in the same way:

    client      the API server that a daemon uses, and its rate of requests
    serving     address, port and open paths of a daemon's own server
    tls         certificate, cipher suites and versions of a server
    listening   where the server of a process that runs alone listens, and its certificates
    access      how long reviews by an API server count, and the headers of front proxies
    election    leader election by a lease
    metrics     which metric families are shown
    clock       the clock that a process that runs alone follows
    logs        format, verbosity and files of a log

Feature gates have a table of their own (`sim.options.features`).
"""
