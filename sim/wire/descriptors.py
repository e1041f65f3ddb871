"""File descriptors: how many this process may have, and how many connections fit below that.

Turns the limit of the operating system into a bound on connections that leaves room for everything
else.

Mirrors  nothing upstream.
"""

from __future__ import annotations

CONNECTIONS_MAX = 10_000  # the default, where the limit of descriptors allows more
# Descriptors other than connections: listeners, the event loop, standard streams, output files,
# libraries.
RESERVED = 64
UNKNOWN = 1024  # where the system does not say: the usual soft limit
UNLIMITED = 1 << 20


def descriptor_limit() -> int:
    """The number of descriptors that this process may have open now."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return UNKNOWN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard limit, as far as the system permits it."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return  # some systems have a maximum of their own: the limit stays


def connections_below(limit: int) -> int:
    """The number of connections that fit below a limit of descriptors, at least one."""
    return max(1, limit - min(RESERVED, limit // 2))


def default_connections() -> int:
    """The bound on connections of a server that was not given one."""
    return min(CONNECTIONS_MAX, connections_below(descriptor_limit()))
