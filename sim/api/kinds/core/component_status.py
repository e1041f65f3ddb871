"""ComponentStatuses: a look at the parts of the control plane, of which nothing is stored.

Mirrors  kubernetes v1.25 pkg/registry/core/componentstatus/rest.go,
         pkg/registry/core/rest/storage_core.go (which components),
         pkg/probe/http (an unreachable server is a failure with the error as its text, and so is
         a code of 400 or more),
         pkg/printers/internalversion/printers.go: printComponentStatus.
Differs  components come in a fixed order, upstream's in a random one. A component is Unhealthy if
         no replica of it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, assert_never

from sim.api.kinds.common.cells import NAME
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Lifecycle, Row
from sim.api.types import Obj
from sim.ident import Names


class Component(NamedTuple):
    """A part of the control plane that is probed.

    host, port, path: of its probe, as the server sees it
    says: what it answers while it is healthy
    """

    name: str
    host: str
    port: int
    path: str
    says: str


def components(names: Names) -> tuple[Component, ...]:
    """The components of a control plane with all parts on one machine."""
    local = "127.0.0.1"
    storage = '{"health":"true","reason":""}'
    return (
        Component("controller-manager", local, 10257, "/healthz", "ok"),
        Component("scheduler", local, 10259, "/healthz", "ok"),
        Component(f"{names.check_storage}-0", local, 2379, "/health", storage),
    )


class Answer(Enum):
    """What the server of a component does with a probe without credentials."""

    HEALTHY = "healthy"
    REFUSED = "refused"  # nothing listens there
    FORBIDDEN = "forbidden"
    REVIEWED = "reviewed"  # as the rights of users that are not known say


Probed = Callable[[], Mapping[str, Answer]]


def status_of(component: Component, answer: Answer) -> Obj:
    """The status of a component.  answer: not REVIEWED"""
    match answer:
        case Answer.HEALTHY | Answer.REVIEWED:
            text = component.says
        case Answer.REFUSED:
            url = f"https://{component.host}:{component.port}{component.path}"
            text = f'Get "{url}": dial tcp {component.host}:{component.port}: connect: connection refused'
        case Answer.FORBIDDEN:
            text = "HTTP probe failed with statuscode: 403"
        case _:
            assert_never(answer)
    healthy = answer is Answer.HEALTHY
    condition = {"type": "Healthy", "status": "True" if healthy else "False", "message": text}
    return {
        "apiVersion": "v1",
        "kind": "ComponentStatus",
        "metadata": {"name": component.name, "creationTimestamp": None},
        "conditions": [condition],
    }


def _healthy(obj: Obj) -> Iterator[Obj]:
    return (c for c in obj.get("conditions") or () if c.get("type") == "Healthy")


def _cells(obj: Obj, _now_us: int, _: Names) -> Cells:
    condition = next(_healthy(obj), None)
    if condition is None:
        return [name_of(obj), "Unknown", "", ""]
    status = "Healthy" if condition["status"] == "True" else "Unhealthy"
    return [name_of(obj), status, condition.get("message", ""), condition.get("error", "")]


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "componentstatuses",
            "ComponentStatus",
            namespaced=False,
            short=("cs",),
            verbs="gl",
            lifecycle=Lifecycle(19),
        ),
    ),
    columns=(NAME, "Status", "Message", "Error"),
    cells=_cells,
)
