"""The status that a load balancer writes.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateLoadBalancerStatus.
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid
from sim.api.validation.metadata import object_meta_update


def validate_balanced_status(new: Obj, old: Obj) -> Errors:
    """Errors of the status of a Service or Ingress, which a load balancer writes."""
    return object_meta_update(new["metadata"], old["metadata"]) + ingress_point_errors(new)


def ingress_point_errors(new: Obj) -> Errors:
    """Errors of the addresses at which the load balancer accepts traffic."""
    errors: Errors = []
    ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    for i, point in enumerate(ingress or ()):
        at = f"status.loadBalancer.ingress[{i}]"
        address, host = point.get("ip"), point.get("hostname")
        if address and text.ip(address):
            errors.append(invalid(f"{at}.ip", address, "must be a valid IP address"))
        if host:
            errors += checked(f"{at}.hostname", host, text.subdomain)
            if not text.ip(host):
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors
