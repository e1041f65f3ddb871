"""Node ports of Services.

Turns the ports of a requested Service and the numbers in use into ports that have their numbers.

Mirrors  kubernetes v1.25 pkg/registry/core/service/storage/alloc.go (initNodePorts,
         updateNodePorts, allocHealthCheckNodePort), portallocator/{allocator,operation}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from sim.api.kinds.core.service.refusal import ServiceRefusal
from sim.api.types import Json, Obj
from sim.dataclass import dataclass

NODE_PORTS = range(30000, 32768)  # --service-node-port-range
NEEDS_NODE_PORT = ("NodePort", "LoadBalancer")
_ALLOCATED = "provided port is already allocated"


@dataclass(slots=True)
class PortOperation:
    """The numbers that one request reserves (PortAllocationOperation).

    taken: the numbers that stored Services hold, this one included
    dry: True for a dry run, which takes numbers out of the range, and makes up those that are not
        in the request
    reserved: the numbers of this request so far
    """

    valid: range
    bits: Callable[[int], int]
    taken: dict[int, None]
    dry: bool
    reserved: dict[int, None] = field(default_factory=dict)

    def reserve(self, number: int) -> str:
        """Why the number cannot be had; "" if it is reserved now."""
        if not self.dry and number not in self.valid:
            ends = f"{self.valid[0]}-{self.valid[-1]}"
            return f"provided port is not in the valid range. The range of valid ports is {ends}"
        if number in self.taken or number in self.reserved:
            return _ALLOCATED
        self.reserved[number] = None
        return ""

    def reserve_any(self) -> int | None:
        """A number that is free; None if none is left.

        Quirk: a dry run looks for none, and gives the one after the highest that it has.
        """
        if self.dry:
            number = max(self.reserved, default=_BEFORE_MADE_UP) + 1
            self.reserved[number] = None
            return number
        count = len(self.valid)
        start = self.bits(32) % count
        for step in range(count):
            number = self.valid[(start + step) % count]
            if number not in self.taken and number not in self.reserved:
                self.reserved[number] = None
                return number
        return None


_BEFORE_MADE_UP = 32_768


def ports_of(spec: Obj) -> dict[int, None]:
    """The node ports of a Service's ports."""
    return {port["nodePort"]: None for port in spec.get("ports") or () if port.get("nodePort")}


def needs_check_port(spec: Obj) -> bool:
    """True if a load balancer of this Service asks each node for its health."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def asks_ports(spec: Obj, before: Obj) -> bool:
    """True if a request reserves a number, so that those in use must be known."""
    if spec.get("type") not in NEEDS_NODE_PORT:
        return False
    had = ports_of(before)
    numbers = [port.get("nodePort", 0) for port in spec.get("ports") or ()]
    return any(number not in had for number in numbers) or _asks_check_port(spec, before)


def take_ports(spec: Obj, before: Obj | None, operation: PortOperation) -> None:
    """Give a number to each port of a Service that needs one, and to the check of its health.

    before: the stored spec; None for a create
    """
    if spec.get("type") in NEEDS_NODE_PORT:
        allocates = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
        ports = [dict(port) for port in spec.get("ports") or ()]
        wanting = [(i, port) for i, port in enumerate(ports) if port.get("nodePort") or allocates]
        if before is None:
            _create(wanting, operation)
        else:
            _update(wanting, ports_of(before), operation)
        if ports:
            spec["ports"] = ports
    if _asks_check_port(spec, before or {}):
        _take_check_port(spec, operation)


def _create(wanting: list[tuple[int, Obj]], operation: PortOperation) -> None:
    """Quirk: the protocols of one port share the first number that is asked for it."""
    asked: dict[Json, int] = {}
    for _, port in wanting:
        if port.get("nodePort"):
            asked.setdefault(port.get("port", 0), port["nodePort"])
    given: dict[Json, int] = {}
    for index, port in wanting:
        own, number = port.get("port", 0), port.get("nodePort", 0)
        if own not in given:
            if own in asked:
                _reserve(asked[own], index, operation)
            given[own] = port["nodePort"] = asked[own] if own in asked else _any(operation)
        elif not number:
            port["nodePort"] = given[own]
        elif number != given[own]:
            _reserve(number, index, operation)


def _update(wanting: list[tuple[int, Obj]], had: dict[int, None], operation: PortOperation) -> None:
    """Quirk: only numbers that are new are reserved, and one number twice for a protocol is a 500,
    not an error of validation.
    """
    new: dict[int, None] = {}
    seen: dict[tuple[str, int], None] = {}
    for index, port in wanting:
        number = port.get("nodePort", 0)
        if not number:
            number = port["nodePort"] = _any(operation)
        elif number not in had and number not in new:
            _reserve(number, index, operation)
            new[number] = None
        key = port.get("protocol", "TCP"), number
        if key in seen:
            raise ServiceRefusal([], failure=f"duplicate nodePort: {{{key[0]} {key[1]}}}", bare=True)
        seen[key] = None


def _reserve(number: int, index: int, operation: PortOperation) -> None:
    if text := operation.reserve(number):
        where = f"spec.ports[{index}].nodePort"
        raise ServiceRefusal([("FieldValueInvalid", where, f"Invalid value: {number}: {text}")])


def _any(operation: PortOperation, what: str = "nodePort") -> int:
    number = operation.reserve_any()
    if number is None:
        raise ServiceRefusal([], failure=f"failed to allocate a {what}: range is full")
    return number


def _asks_check_port(spec: Obj, before: Obj) -> bool:
    return needs_check_port(spec) and not needs_check_port(before)


def _take_check_port(spec: Obj, operation: PortOperation) -> None:
    number = spec.get("healthCheckNodePort", 0)
    if not number:
        spec["healthCheckNodePort"] = _any(operation, "HealthCheck NodePort 0")
    elif text := operation.reserve(number):  # Quirk: an error of the client gets a 500
        raise ServiceRefusal(
            [], failure=f"failed to allocate requested HealthCheck NodePort {number}: {text}"
        )
