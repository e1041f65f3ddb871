"""What quotas count of Services: load balancers and node ports.

Mirrors  kubernetes v1.25 pkg/quota/v1/evaluator/core/services.go.
"""

from __future__ import annotations

from sim.api.schema.quota_use import NOTHING, ONE, Amounts, QuotaUse
from sim.api.types import Obj
from sim.ident import Names
from sim.units import DECIMAL_SI, NANO


def _owns(name: str, _: Names) -> bool:
    return name in ("services", "services.loadbalancers", "services.nodeports")


def _usage(service: Obj, _: Names) -> Amounts:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), (len(spec.get("ports") or ()) * NANO, DECIMAL_SI)
    balanced = kind == "LoadBalancer"
    with_ports = kind == "NodePort" or (balanced and spec.get("allocateLoadBalancerNodePorts") is not False)
    if balanced and not with_ports:
        ports = (sum(bool(port.get("nodePort")) for port in spec.get("ports") or ()) * NANO, DECIMAL_SI)
    return {
        "services": ONE,
        "services.loadbalancers": ONE if balanced else NOTHING,
        "services.nodeports": ports if balanced or with_ports else NOTHING,
    }


def _type(service: Obj) -> str:
    """The type of a Service as far as quotas distinguish types."""
    kind = str((service.get("spec") or {}).get("type", ""))
    return kind if kind in ("NodePort", "LoadBalancer") else ""


def _frees(old: Obj, new: Obj, _wall_us: int) -> bool:
    return _type(old) != _type(new)


QUOTA = QuotaUse(_owns, _usage, charges_updates=True, frees=_frees)
