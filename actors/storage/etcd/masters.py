"""The addresses of the API servers of one etcd, each a key with a lease.

Turns a renewal into a lease and a write, and keys that come and go into the addresses that are
alive.

Mirrors  kubernetes v1.25 pkg/controlplane/reconcilers/lease.go (UpdateLease, RemoveLease: an
         Endpoints object with one address).
"""

from __future__ import annotations

from actors.storage.etcd import requests
from actors.storage.etcd.upkeep import Ask
from actors.storage.etcd.values import Values
from sim.api.replica_records import MasterLeases
from sim.kernel import Kernel
from sim.units import SECOND, Virtual
from sim.wire.etcd.link import OK
from sim.wire.etcd.messages import Granted, decode

LEASE_S = 15  # DefaultEndpointReconcilerTTL
ENDPOINTS = "//endpoints//"


class EtcdMasters(MasterLeases):
    """The addresses.  prefix: of their keys"""

    __slots__ = ("_ask", "_kernel", "_prefix", "_values")

    def __init__(self, kernel: Kernel, prefix: str, values: Values, ask: Ask) -> None:
        super().__init__()
        self._kernel, self._prefix, self._values, self._ask = kernel, prefix, values, ask

    def renew(self, address: str, holder: str, until_us: Virtual) -> None:
        """Write the key of an address, with a new lease."""
        super().renew(address, holder, until_us)
        obj = {"metadata": {}, "subsets": [{"addresses": [{"ip": address}]}]}
        value = self._values.encode(ENDPOINTS, obj, ())
        key = f"{self._prefix}{address}".encode()

        def granted(code: int, body: bytes) -> None:
            if code == OK:
                lease = decode(Granted, body).ID
                self._ask(requests.TXN, requests.put(key, value, None, lease), lambda *_: None)

        self._ask(requests.GRANT, {"TTL": LEASE_S}, granted)

    def remove(self, address: str) -> None:
        """Delete the key of an address."""
        super().remove(address)
        key = f"{self._prefix}{address}".encode()
        self._ask(requests.TXN, requests.delete(key, None), lambda *_: None)

    def see(self, name: bytes, *, is_there: bool) -> None:
        """Take a change of a key in etcd."""
        address = name.decode("utf-8", "replace")
        if not address.startswith(self._prefix):
            return
        address = address.removeprefix(self._prefix)
        if is_there:
            holder, _ = self.holders.get(address, ("", 0))
            self.holders[address] = holder, Virtual(self._kernel.now_us + LEASE_S * SECOND)
        else:
            self.holders.pop(address, None)
