"""The API machinery: a request is a value in, a reply or a watch is a value out; no I/O."""
