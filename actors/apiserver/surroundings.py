"""What an API server is connected to besides its storage: nodes, programs outside, keys, audit.

A cluster composes these before it makes the server; a server by itself has none of them.

Holds: they are the same for every incarnation of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from actors.apiserver.aggregation.aggregator import Backends, NoBackends
from actors.apiserver.webhooks import Ask, unreachable
from sim.api.audit.sink import AuditSink
from sim.api.kinds.core.component_status import Probed
from sim.api.store import Item
from sim.api.streams import StreamRequest
from sim.api.types import Obj, Reply, UserInfo
from sim.api.verbs.call import Call, Identities
from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The connections of one server.

    log: serves pods/log; None answers as for a node that cannot be reached
    probed: the state of the components for ComponentStatuses
    agent_listens: True for a node with an agent that serves its port
    stream: opens a stream to an agent of a node; dial: connects to a program of a pod
    identities: credentials of service accounts, shared by the servers of a cluster
    addons: objects, each with its plural, that exist from the start beside those of every cluster
    ask: calls a program outside for a webhook
    backends: the servers behind the Services of APIServices
    audit_sink: takes the events of the audit
    client_address: the address of the host of a user; None gives that of the server
    """

    log: Callable[[Call, Item, str, str], Reply | None] | None = None
    probed: Probed | None = None
    agent_listens: Callable[[str], bool] | None = None
    stream: Callable[[str, StreamRequest, str], Reply] | None = None
    dial: Callable[[StreamRequest, Callable[[str], Reply]], Reply] | None = None
    identities: Identities | None = None
    addons: Sequence[tuple[str, Obj]] = ()
    ask: Ask = unreachable
    backends: Backends = field(default_factory=NoBackends)
    audit_sink: AuditSink | None = None
    client_address: Callable[[UserInfo], str] | None = None


ALONE = Surroundings()
