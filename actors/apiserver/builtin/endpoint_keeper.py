"""Endpoints and EndpointSlice of the API servers' Service: each running server keeps its address
there.

Turns the leases of API servers, which each of them renews every 10 s, into writes of the two
objects.

Holds: nothing is written while both objects are correct; the last address is never removed, not
even by its own server.

Mirrors  kubernetes v1.25 pkg/controlplane/controller.go (RunKubernetesService, Stop),
         pkg/controlplane/reconcilers/{lease,endpointsadapter}.go.
Differs  - The leases are stored beside the objects, as the record of compactions is, so that they
           take no revision.
         - A round reads the storage.  A round that cannot reach the storage or fails is repeated
           only by the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.apiserver.builtin.own_requests import write
from actors.apiserver.ports import LocalStore, Server
from sim.api.types import Obj, Reply, Verb
from sim.ident import Names
from sim.kernel import Context
from sim.units import SECOND, Virtual

INTERVAL_US = 10 * SECOND  # pkg/controlplane/instance.go: DefaultEndpointReconcilerInterval
LEASE_US = 15 * SECOND  # DefaultEndpointReconcilerTTL
START = Virtual(0)  # of the run
LEAVE_US = 2 * INTERVAL_US  # controller.go: Stop
API_PORT = 6443
ENDPOINTS, SLICES = "endpoints", "endpointslices"


# --- decisions ------------------------------------------------------------------------------------


def ports_of(port: int) -> list[Obj]:
    """The ports of the Endpoints.  port: at which clients reach the servers"""
    return [{"name": "https", "port": port, "protocol": "TCP"}]


PORTS = ports_of(API_PORT)


def kept_endpoints(
    found: Obj | None,
    addresses: Sequence[str],
    names: Names,
    with_ports: bool = False,
    ports: list[Obj] = PORTS,
) -> Obj:
    """Return the Endpoints with these addresses; `found` itself if it already has them.

    with_ports: correct the ports as well
    """
    made = found or {"metadata": {"name": names.apiserver_service, "namespace": names.default_namespace}}
    labels = made["metadata"].get("labels") or {}
    if labels.get(names.label_skip_mirror) != "true":
        labels = {**labels, names.label_skip_mirror: "true"}
        made = {**made, "metadata": {**made["metadata"], "labels": labels}}
    subsets = made.get("subsets") or []
    subset = subsets[0] if len(subsets) == 1 else {"addresses": [], "ports": ports}
    if sorted(each["ip"] for each in subset.get("addresses") or ()) != sorted(addresses):
        subset = {**subset, "addresses": [{"ip": address} for address in sorted(addresses)]}
    if with_ports and subset.get("ports") != ports:
        subset = {**subset, "ports": ports}
    return made if subsets and subset is subsets[0] else {**made, "subsets": [subset]}


def slice_of(endpoints: Obj, names: Names) -> Obj:
    """Return the EndpointSlice that corresponds to Endpoints."""
    metadata, (subset,) = endpoints["metadata"], endpoints["subsets"]
    states = (("addresses", True), ("notReadyAddresses", False))
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {names.label_service_name: metadata["name"]},
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [address["ip"]], "conditions": {"ready": ready}}
            for field, ready in states
            for address in subset.get(field) or ()
        ],
        "ports": [
            {key: port[key] for key in ("name", "port", "protocol") if key in port}
            for port in subset.get("ports") or ()
        ],
    }


def is_shown(wanted: Obj, found: Obj) -> bool:
    """Return True if a slice has the wanted endpoints, ports and labels."""
    same = all((found.get(field) or []) == wanted[field] for field in ("endpoints", "ports"))
    return same and (found["metadata"].get("labels") or {}) == wanted["metadata"]["labels"]


# --- the process ----------------------------------------------------------------------------------


class EndpointKeeper:
    """The controller of one incarnation of a server."""

    def __init__(self, server: Server, store: LocalStore, ctx: Context) -> None:
        self._server = server
        self._store = store
        self._ctx = ctx
        self._masters = server.storage.masters
        self._ports = ports_of(server.reached_at[1])
        self._stays = bool(server.reached_at[1])
        self._done: Callable[[], None] | None = None  # called at the end of the last round
        self._round()

    def leave(self, done: Callable[[], None]) -> None:
        """Remove the server's own address before it ends.

        `done` is called once, at the end of the round or after 20 s.
        """
        stayed, self._stays, self._done = self._stays, False, done
        if not (stayed and self._reached):
            self._finish()
            return
        self._ctx.call_later_us(LEAVE_US, self._finish)
        self._masters.remove(self._server.reached_at[0])
        self._reconcile(with_ports=True)

    def _finish(self, _: object = None) -> None:
        """Report the end of the last round, whether it succeeded or failed."""
        done, self._done = self._done, None
        if done is not None:
            done()

    @property
    def _reached(self) -> bool:
        reach, storage = self._server.reach, self._server.storage
        return storage.led and reach is not None and not reach.cut

    def _round(self, _: object = None) -> None:
        if not self._stays:
            return
        self._ctx.call_later_us(INTERVAL_US, self._round)
        if self._reached:
            until_us = self._server.kernel.now_us + LEASE_US
            _, expired_us = self._masters.holders.get(self._server.reached_at[0], ("", START))
            self._masters.renew(self._server.reached_at[0], self._server.name, until_us)
            self._reconcile(renewed_us=expired_us - LEASE_US)

    def _found(self, plural: str) -> Obj | None:
        scheme = self._server.scheme
        names = scheme.names
        item = self._store.get(scheme.key(plural, names.default_namespace, names.apiserver_service))
        return None if item is None else item.obj

    def _reconcile(self, with_ports: bool = False, renewed_us: Virtual = START) -> None:
        """Write the Endpoints, then the slice, if they differ from what is wanted.

        renewed_us: virtual time of the lease renewal before the present one
        """
        names = self._server.scheme.names
        addresses = self._masters.alive(self._server.kernel.now_us)
        if not addresses:
            self._finish()
            return
        found = self._found(ENDPOINTS)
        wanted = kept_endpoints(found, addresses, names, with_ports, self._ports)
        if wanted is found:
            self._show(wanted)
            return
        target = f"{ENDPOINTS}/{names.default_namespace}/{names.apiserver_service}"
        self._ctx.decided(
            "reconcile", target, {"addresses": addresses}, self._cause(found, addresses, renewed_us)
        )

        def written(reply: Reply) -> None:
            if reply.ok:
                self._show(wanted)
            else:
                self._finish()

        self._write(ENDPOINTS, wanted, "create" if found is None else "update", written)

    def _cause(self, found: Obj | None, addresses: list[str], renewed_us: Virtual) -> int:
        """Return the fault that let a server's lease expire, or the end of the fault that let the
        server's own
        lease expire; 0 if there is none.
        """
        subsets = (found or {}).get("subsets") or ()
        shown = [each["ip"] for subset in subsets for each in subset.get("addresses") or ()]
        if shown and self._server.reached_at[0] in addresses and self._server.reached_at[0] not in shown:
            standing = self._server.kernel.standing
            hosts = (self._server.name, self._server.storage.name)
            return max(standing.relief(host, renewed_us) for host in hosts)
        gone = [
            self._masters.holders[ip] for ip in shown if ip not in addresses and ip in self._masters.holders
        ]
        if not gone:
            return 0
        ctx, kernel = self._ctx, self._server.kernel
        holder, until_us = gone[0]
        return ctx.silence(holder, ctx.now_us() - (kernel.now_us - until_us) - LEASE_US)

    def _show(self, endpoints: Obj) -> None:
        """Write the slice if it does not correspond to the Endpoints."""
        if not self._ctx.alive:
            return
        wanted, found = slice_of(endpoints, self._server.scheme.names), self._found(SLICES)
        if found is None:
            self._write(SLICES, wanted, "create", self._finish)
        elif found["addressType"] != wanted["addressType"]:  # the type is immutable
            self._write(SLICES, wanted, "delete", lambda _: self._show_anew(endpoints))
        elif not is_shown(wanted, found):
            self._write(SLICES, wanted, "update", self._finish)
        else:
            self._finish()

    def _show_anew(self, endpoints: Obj) -> None:
        """Create the slice after one of another type was deleted, which finalizers may delay."""
        if self._ctx.alive and self._found(SLICES) is None:
            self._show(endpoints)
        else:
            self._finish()

    def _write(self, plural: str, obj: Obj, verb: Verb, respond: Callable[[Reply], None]) -> None:
        write(self._server, verb, plural, obj, respond)
