"""The sockets of an API server that runs alone.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/serving.go (CreateListener).
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from sim.errors import InputError
from sim.options.groups.listening import ListenFlags

BACKLOG = 4096


@asynccontextmanager
async def listeners_at(flags: ListenFlags) -> AsyncIterator[Sequence[trio.SocketListener]]:
    """Listeners at the address of the options, until the end of the body.  Raises InputError."""
    host, port = flags.bind_address or "0.0.0.0", flags.secure_port
    family = trio.socket.AF_INET6 if ":" in host else trio.socket.AF_INET
    new = trio.socket.socket(family, trio.socket.SOCK_STREAM)
    try:
        new.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 1)
        if flags.permit_port_sharing:
            new.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEPORT, 1)
        await new.bind((host, port))
        new.listen(BACKLOG)
    except OSError as error:
        new.close()
        text = os.strerror(error.errno or errno.EINVAL).lower()
        raise InputError(
            f"failed to create listener: failed to listen on {host}:{port}: {text}",
            "--secure-port",
            "choose another port",
        ) from None
    try:
        yield [trio.SocketListener(new)]
    finally:
        new.close()
