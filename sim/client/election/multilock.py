"""Leader election over two objects: an annotation of Endpoints or a ConfigMap, and a Lease beside
it.

Turns the two stored records into the one that `election` decides by, and its writes into writes of
both objects.

Holds: a candidate leads if both records name it; if the two name different holders, the leader is
an unknown one until the lease duration is over; the annotation is read and written first, so that
candidates that know only the annotation are respected.

Mirrors  client-go v1.25
         tools/leaderelection/resourcelock/{multilock,endpointslock,configmaplock,leaselock}.go.
Differs  each call is an ordinary request without fast paths: a migration from one kind of lock to
         another is not performance-critical.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

from sim.api.schema.typed_objects import LeaseSpec
from sim.api.types import Obj, Reply, Request
from sim.client.client import Client
from sim.client.election.elector import ElectionOptions, LeaderElector
from sim.client.election.record import holder_of
from sim.client.election.states import OnTried, Round
from sim.kernel import Context
from sim.units import format_micro_time, format_time, parse_time

# The resource with the annotation that holds the first record, by kind of lock; "leases" alone has
# none.
PRIMARIES: Mapping[str, str] = {"endpointsleases": "endpoints", "configmapsleases": "configmaps"}
_TIMES = ("acquireTime", "renewTime")


def candidate(
    ctx: Context,
    client: Client,
    lease: tuple[str, str],
    identity: str,
    options: ElectionOptions,
) -> LeaderElector:
    """A candidate for the kind of lock that the options name."""
    kind = LeaderElector if options.resource_lock not in PRIMARIES else MultiElector
    elected = ctx.kernel.elected
    on_leader = None if elected is None else partial(elected, "/".join(lease))
    new = kind(ctx, client, lease, identity, options, on_leader)
    ctx.kernel.candidates[lease[1], ctx.name] = lambda: (new.healthy, new.leading)
    return new


def text_of(spec: LeaseSpec) -> str:
    """A record as the annotation holds it, with times in whole seconds (Quirk: the Lease too has
    whole seconds, once the record has been read from here).
    """
    times = {name: spec.get(name) for name in _TIMES}
    record = {
        "holderIdentity": holder_of(spec),
        "leaseDurationSeconds": int(spec.get("leaseDurationSeconds") or 0),
        **{name: format_time(parse_time(time)) if time else None for name, time in times.items()},
        "leaderTransitions": int(spec.get("leaseTransitions") or 0),
    }
    return json.dumps(record, separators=(",", ":"))


def spec_of(text: str) -> LeaseSpec | None:
    """The record of an annotation ("": an empty one) in the form of a Lease; None if it is invalid."""
    try:
        record = json.loads(text or "{}")
        spec: LeaseSpec = {
            "holderIdentity": str(record.get("holderIdentity") or ""),
            "leaseDurationSeconds": int(record.get("leaseDurationSeconds") or 0),
            "leaseTransitions": int(record.get("leaderTransitions") or 0),
        }
        if record.get("acquireTime"):
            spec["acquireTime"] = format_micro_time(parse_time(record["acquireTime"]))
        if record.get("renewTime"):
            spec["renewTime"] = format_micro_time(parse_time(record["renewTime"]))
    # Any client may have written any text.
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return spec


class MultiElector(LeaderElector):
    """One candidate for leadership by an annotation and a Lease."""

    def __init__(
        self,
        ctx: Context,
        client: Client,
        lease: tuple[str, str],
        identity: str,
        options: ElectionOptions,
        on_new_leader: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(ctx, client, lease, identity, options, on_new_leader)
        names = client.scheme.names
        self._resource = client.scheme.resource(PRIMARIES[options.resource_lock])
        self._annotation = names.annotation_leader
        self._unknown = f"leaderelection.{names.group_domain}/unknown"
        self._primary: Obj = {}  # as read or written last; empty after a failure
        self._asks_primary = False
        self._record: LeaseSpec = {}  # the record that the annotation holds
        self._text = ""

    def _locks(self) -> list[Obj]:
        # Another candidate created it: upstream's event about it has no name and is rejected.
        if not self._primary:
            return super()._locks()
        kind = self._resource
        return [{**self._primary, "apiVersion": kind.api_version, "kind": kind.kind}, *super()._locks()]

    @property
    def _has_read(self) -> bool:
        return bool(self._primary)

    # --- reading both -----------------------------------------------------------------------------

    def _try(self, limit_us: int, tried: OnTried, present: Round | None = None) -> None:
        self._begin_try(limit_us, tried, present)
        self._asks_primary = True
        self._ask(self._request_primary, self._read_primary, reads=True)

    def _request_primary(self) -> Request:
        namespace, name = self._lease
        return self._client.request("get", self._resource, namespace, name)

    def _lose_read(self) -> None:
        if self._asks_primary:
            self._primary = {}
        else:
            super()._lose_read()

    def _read_primary(self, reply: Reply) -> None:
        self._asks_primary = False
        self._primary = reply.obj if reply.ok else {}
        if reply.reason == "NotFound":
            self._create()
            return
        record = None
        if reply.ok:
            self._text = (self._primary["metadata"].get("annotations") or {}).get(self._annotation, "")
            record = spec_of(self._text)
        if record is None:
            self._attempt.tried(False)
            return
        self._record = record
        self._ask(self._request_read, self._read_secondary, reads=True)

    def _read_secondary(self, reply: Reply) -> None:
        record, state = self._record, self._lease_state
        state.lease = None
        if reply.ok:
            state.item, state.lease = reply.item, reply.obj
            spec: LeaseSpec = reply.obj.get("spec") or {}
            if holder_of(spec) != holder_of(record):
                record = {**record, "holderIdentity": self._unknown}
                self._text = text_of(record)
            self._weigh(record, {"primary": self._text, "secondary": text_of(spec)})
        elif reply.reason != "NotFound":
            self._attempt.tried(False)
        elif holder_of(record) == self.identity:
            self._create()
        else:
            # The holder is a candidate that knows only the annotation.
            state.item = None
            self._weigh(record, {"primary": self._text})

    # --- writing both -----------------------------------------------------------------------------

    def _create_record(self, spec: LeaseSpec) -> None:
        namespace, name = self._lease
        new = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {self._annotation: text_of(spec)},
            },
        }

        def created(reply: Reply) -> None:
            if reply.ok:
                self._primary = reply.obj
            elif reply.reason != "AlreadyExists":
                self._attempt.tried(False)
                return
            self._create_lease(spec)

        self._ask(lambda: self._client.request("create", self._resource, namespace, body=new), created)

    def _write(self, spec: LeaseSpec) -> None:
        namespace, name = self._lease
        self._lease_state.written = spec
        meta = self._primary["metadata"]
        annotations = {**(meta.get("annotations") or {}), self._annotation: text_of(spec)}
        body = {**self._primary, "metadata": {**meta, "annotations": annotations}}

        def written(reply: Reply) -> None:
            if reply.ok:
                self._primary = reply.obj
                self._ask(self._request_read, self._write_secondary, reads=True)
            else:
                self._attempt.tried(False)

        self._ask(lambda: self._client.request("update", self._resource, namespace, name, body=body), written)

    def _write_secondary(self, reply: Reply) -> None:
        if reply.reason == "NotFound":
            self._create_lease(self._lease_state.written)
        elif reply.ok:
            self._lease_state.item, self._lease_state.lease = reply.item, reply.obj
            self._ask(self._request_write, self._wrote)
        else:
            self._attempt.tried(False)
