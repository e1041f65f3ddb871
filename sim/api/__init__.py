"""The API machinery: a request is a value in, a reply or a watch is a value out; no I/O.

It knows nothing of processes and of time: time, randomness and the store are arguments. A server, a
test and a command line use the same functions, so that each answers as the others do.
"""
