"""An API server over a real etcd.

Turns the options of etcd into a cluster with one API server that keeps its objects there.

Holds: the server begins once the state of etcd has been read, and answers once its own objects are
there.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/etcd.go,
         pkg/storage/storagebackend/factory/etcd3.go.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from secrets import token_bytes

import trio

from actors.storage.etcd.encryption import Encryption
from actors.storage.etcd.keys import Keys
from actors.storage.etcd.process import EtcdStorage
from actors.storage.etcd.values import BadValueError, Values
from sim.app.daemons.apiserver.composition import Reach, ServerAlone
from sim.errors import InputError, only_of
from sim.files import read_bounded
from sim.options.apiserver.storage import StorageFlags
from sim.scenario.plan.plan import ClusterPlan
from sim.units import Wall
from sim.wire.etcd.client import EtcdClient, EtcdError
from sim.wire.etcd.link import EtcdLink
from sim.wire.tls import client_context

LOG = logging.getLogger(__name__)
SERVERS = "--etcd-servers"
FAILED = 1  # exit status


class ServerOverEtcd(ServerAlone):
    """A cluster of one API server with a real etcd.  storage: its `EtcdStorage`"""

    storage: EtcdStorage

    def __init__(
        self, plan: ClusterPlan, reach: Reach, seed: int, epoch_us: Wall, flags: StorageFlags
    ) -> None:
        self._flags = flags
        self._lost = trio.Event()
        self._begun = trio.Event()
        super().__init__(plan, reach, seed, epoch_us)

    async def run(self, serve: Callable[[], Awaitable[int]]) -> int:
        """Serve until that ends, or the etcd is another one than at the start; returns the
        exit status.  Raises InputError.
        """
        ended, status = trio.CancelScope(), FAILED
        try:
            async with trio.open_nursery() as nursery:
                await self._open(nursery)
                nursery.start_soon(self._end_if_lost, ended.cancel)
                with ended:
                    status = await serve()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise only_of(group) from None
        return status

    def make_storage(self) -> EtcdStorage:
        """The storage process over etcd."""
        flags = self._flags
        self._keys = Keys(self.scheme, flags.etcd_prefix)
        try:
            encryption = Encryption(self.scheme, self._keys, flags.encryption, token_bytes)
        except ValueError as error:
            raise InputError(str(error), "--encryption-provider-config") from None
        values = Values(self.scheme, flags.storage_media_type, encryption)
        interval_us = self.options.api_server.compaction_interval_us
        storage = EtcdStorage(self.kernel, self._keys, values, interval_us)
        storage.unreadable = partial(LOG.error, "%s")
        storage.begun = self._begun.set
        storage.leases.reuse_s = flags.lease_reuse_s
        return storage

    async def _open(self, nursery: trio.Nursery) -> None:
        """Read the state of etcd, and follow it from now on.  Raises InputError."""
        flags = self._flags
        client = EtcdClient(flags.etcd_servers, _tls(flags))
        link = EtcdLink(self.kernel, client, nursery, self._keys.root, self._lose)
        try:
            await link.first()
            self.kernel.gate.apply()  # before any process begins
        except EtcdError as error:
            raise InputError(f"etcd does not answer: {error}", SERVERS) from None
        except BadValueError as error:
            raise InputError(
                str(error), SERVERS, "name an etcd of another cluster, or --etcd-prefix"
            ) from None
        self.storage.link = link
        nursery.start_soon(link.follow)

    def _lose(self, why: str) -> None:
        LOG.critical("%s: %s", SERVERS, why)
        self._lost.set()

    async def ready(self) -> None:
        """Wait until the objects of the start are in etcd."""
        await self._begun.wait()

    async def _end_if_lost(self, end: Callable[[], None]) -> None:
        await self._lost.wait()
        end()


def _tls(flags: StorageFlags) -> ssl.SSLContext | None:
    """TLS of the connections to etcd; None without URLs of https.  Raises InputError."""
    if not any(url.startswith("https://") for url in flags.etcd_servers):
        return None
    read = {
        name: read_bounded(Path(value), place=f"--{name}") if value else b""
        for name, value in (
            ("etcd-cafile", flags.etcd_cafile),
            ("etcd-certfile", flags.etcd_certfile),
            ("etcd-keyfile", flags.etcd_keyfile),
        )
    }
    try:
        pair = read["etcd-certfile"] + b"\n" + read["etcd-keyfile"] if read["etcd-certfile"] else b""
        return client_context(read["etcd-cafile"], pair)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"the certificates cannot be used: {error}", "--etcd-cafile") from None
