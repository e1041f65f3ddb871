"""Whether the server behind an APIService is available.  Pure.

Turns an APIService, its Service with endpoints, and the result of a discovery request into the
condition Available.

Mirrors  kube-aggregator v1.25 pkg/controllers/status/available_controller.go (sync),
         pkg/apis/apiregistration/v1/helper/helpers.go.
Differs  one discovery request is sent, not five at once: a Service has one address here.
"""

from __future__ import annotations

from typing import NamedTuple

from sim.api.kinds.apiregistration.api_service import AVAILABLE
from sim.api.objects import condition_of
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj

CLUSTER_IP = "ClusterIP"
CHECK_S = 5  # discoveryClient: Timeout
OK, MULTIPLE_CHOICES = 200, 300


class Condition(NamedTuple):
    """A value of the condition Available."""

    status: str
    reason: str
    message: str


LOCAL = Condition("True", "Local", "Local APIServices are always available")
PASSED = Condition("True", "Passed", "all checks passed")


def is_available(api_service: Obj) -> bool:
    """True if the last check passed."""
    condition = condition_of(api_service, AVAILABLE)
    return condition is not None and condition.get("status") == "True"


def from_objects(
    reference: Obj, service: Obj | None, endpoints: Obj | None, *, outside: bool
) -> Condition | None:
    """The condition that follows from the objects alone; None if discovery decides.

    reference: the `spec.service` of the APIService
    outside: True if the user gave the Service an address outside, which needs no endpoints
    """
    name, namespace, port = reference["name"], reference["namespace"], reference.get("port", 443)
    quoted = go_quote(namespace)
    if service is None:
        return Condition("False", "ServiceNotFound", f"service/{name} in {quoted} is not present")
    spec = service.get("spec") or {}
    if spec.get("type", CLUSTER_IP) != CLUSTER_IP:
        return None
    found = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
    if found is None:
        text = f"service/{name} in {quoted} is not listening on port {port}"
        return Condition("False", "ServicePortError", text)
    if outside:
        return None
    if endpoints is None:
        text = f"cannot find endpoints for service/{name} in {quoted}"
        return Condition("False", "EndpointsNotFound", text)
    port_name = found.get("name") or ""
    for subset in endpoints.get("subsets") or ():
        names = [each.get("name") or "" for each in subset.get("ports") or ()]
        if subset.get("addresses") and port_name in names:
            return None
    text = f"endpoints for service/{name} in {quoted} have no addresses with port name {go_quote(port_name)}"
    return Condition("False", "MissingEndpoints", text)


def discovery_path(spec: Obj) -> str:
    """The path that is asked for: the group version of the APIService."""
    group, version = spec.get("group") or "", spec["version"]
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def from_discovery(url: str, code: int, failure: str) -> Condition:
    """The condition that follows from a discovery request.

    code: of the answer
    failure: why there is no answer, "" if there is one
    """
    if failure:
        problem = f'Get "{url}": {failure}'
    elif not OK <= code < MULTIPLE_CHOICES:
        problem = f"bad status from {url}: {code}"
    else:
        return PASSED
    text = f"failing or missing response from {url}: {problem}"
    return Condition("False", "FailedDiscoveryCheck", text)


def with_available(api_service: Obj, condition: Condition, now: str) -> Obj | None:
    """The object with the condition; None if it has it already.

    The transition time changes only with the status.
    """
    status = api_service.get("status") or {}
    others = [each for each in status.get("conditions") or () if each.get("type") != AVAILABLE]
    old = condition_of(api_service, AVAILABLE)
    made: Obj = {
        "type": AVAILABLE,
        "status": condition.status,
        "lastTransitionTime": now,
        "reason": condition.reason,
        "message": condition.message,
    }
    if old is not None and old.get("status") == condition.status:
        made["lastTransitionTime"] = old.get("lastTransitionTime")
    if old == made:
        return None
    return {**api_service, "status": {**status, "conditions": [*others, made]}}
