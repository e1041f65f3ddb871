"""The I/O manager of Trio in the copy of a process.

A fork shares the epoll instance and the wakeup sockets of Trio with its parent: an event that one
of them takes, the other does not get. The copy therefore puts new ones in their place, under the
same numbers, and registers what its tasks wait for.

This is the one place that reads what Trio does not document. Where Trio's parts have other names,
`FORKS` is False, and runs are repeated.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from importlib import import_module
from typing import Any

_TRIO: Any = import_module("trio._core._run")


def forks() -> bool:
    """True if a process with Trio can be forked: on Linux, since other systems do not let all
    libraries live on in a fork.
    """
    if sys.platform != "linux":
        return False
    manager = getattr(import_module("trio._core._io_epoll"), "EpollIOManager", None)
    names = {field.name for field in getattr(manager, "__attrs_attrs__", ())}
    runner = {field.name for field in getattr(_TRIO.Runner, "__attrs_attrs__", ())}
    return names >= {"_epoll", "_registered", "_force_wakeup", "_force_wakeup_fd"} and runner >= {
        "io_manager",
        "entry_queue",
    }


FORKS = forks()


def renew() -> None:
    """Give the run of Trio in this copy of a process an I/O manager of its own."""
    runner = _TRIO.GLOBAL_RUN_CONTEXT.runner
    manager = runner.io_manager
    for pair in (runner.entry_queue.wakeup, manager._force_wakeup):
        reads, writes = socket.socketpair()
        for new, old in ((reads, pair.wakeup_sock), (writes, pair.write_sock)):
            new.setblocking(False)
            _replace(old.fileno(), new.fileno())
            new.close()
    epoll = select.epoll()
    _replace(manager._epoll.fileno(), epoll.fileno())
    epoll.close()
    manager._epoll.register(manager._force_wakeup_fd, select.EPOLLIN)
    for number, waiters in manager._registered.items():
        manager._epoll.register(number, waiters.current_flags | select.EPOLLONESHOT)
    runner.entry_queue.wakeup.wakeup_thread_and_signal_safe()  # for what came during the fork


def _replace(old: int, new: int) -> None:
    os.dup2(new, old, inheritable=False)
