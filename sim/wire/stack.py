"""How deep values from outside may nest: as deep as upstream reads, if the stack has room for it.

Values are read, changed, compared and written by code that calls itself once or a few times a
level. Python's own limit of such calls is meant for programs that do so without an end; it is
raised when a process begins to take requests from outside, and with it the stacks of threads.

Holds: no body ends the process: the limit stays below what the stack of the thread can hold, and
the depth that is accepted follows from the stack.

Mirrors  golang encoding/json scanner.go (maxNestingDepth): Go's stacks grow.
Differs  a thread with a stack of less than 10 MiB that cannot grow reads less deep. With CPython
         3.12 and 3.13 a value near the limit is 400: their bound on calls of C is fixed.
"""

from __future__ import annotations

import sys
import threading

from sim.api.schema.json_text import GO_DEPTH_MAX

ORDINARY = 200  # what Python's own limit has room for
CALLS_MAX = 60_000  # six a level
# Of the stack of the machine, for a level: measured below 800 bytes, in the checks of a definition.
LEVEL_BYTES = 1024
WANTED_BYTES = 64 << 20
UNKNOWN_BYTES = 1 << 20


_room = [ORDINARY]


def room() -> int:
    """The number of levels that a value from outside may have."""
    return _room[0]


def make_room() -> None:
    """Make room for values from outside, in the thread that will handle them."""
    levels = min(GO_DEPTH_MAX, _stack_bytes() // LEVEL_BYTES)
    if levels <= ORDINARY:
        return
    _room[0] = levels
    sys.setrecursionlimit(max(sys.getrecursionlimit(), CALLS_MAX * levels // GO_DEPTH_MAX))
    try:  # threads convert bodies, too
        threading.stack_size(max(threading.stack_size(), WANTED_BYTES))
    except (ValueError, RuntimeError):
        _room[0] = ORDINARY


def _stack_bytes() -> int:
    """The size of this thread's stack.  On Linux that of the main thread grows up to a limit, which
    is raised first.
    """
    main = threading.current_thread() is threading.main_thread()
    if threading.stack_size() and not main:
        return threading.stack_size()
    try:
        import resource
    except ImportError:  # no such limit on this system
        return UNKNOWN_BYTES
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = WANTED_BYTES if hard == resource.RLIM_INFINITY else min(WANTED_BYTES, hard)
    if main and sys.platform == "linux" and 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
        soft = wanted
    return WANTED_BYTES if soft == resource.RLIM_INFINITY else soft
