"""request: users send requests to a Service."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from actors.users.requests import OUTSIDE, RequestSpec
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import Strict
from sim.scenario.actions.context import UserContext, check_object

GAP_MIN_US = 10_000  # 100 requests a second show what any number of them would


class Requests(Strict, kw_only=True):
    """The parameters of `request`."""

    service: Annotated[str, Meta(min_length=1, description="The Service, by its name.")]
    rate: Annotated[str, Meta(description="Requests in a time, at equal distances: `1/s`, `6/m`.")]
    namespace: Annotated[str, Meta(description="That of the Service.")] = "default"
    port: Annotated[
        str | int, Meta(description="The Service's port by name or number; default the first.")
    ] = ""
    from_: Annotated[
        str,
        Meta(
            description="`outside`, through the Service's port on the nodes in turn (it has the type NodePort or LoadBalancer); "
            "a node; or the labels of pods that send in turn, as `app=shop`, in the Service's namespace or `NAMESPACE/app=shop`."
        ),
    ]
    timeout: Annotated[str, Meta(description="After which a client gives up.")] = "5s"
    takes: Annotated[
        str, Meta(description="How long a server works on a request; it is cut off if the server ends first.")
    ] = "0s"
    dns: Annotated[
        str | UnsetType,
        Meta(
            description="NAMESPACE/NAME of the Service that resolves names; without it clients have the address."
        ),
    ] = UNSET
    name_ttl: Annotated[
        str, Meta(description="With `dns`: how long a client keeps a name; 0s: it asks each time.")
    ] = "30s"


@dataclass(frozen=True, slots=True)
class SendRequests(Action):
    """Clients send requests to a Service."""

    spec: RequestSpec

    def begin(self, stage: Stage, step: str) -> Undo:
        """Begin to send; the result ends that."""
        return stage.cluster.send_requests(step, self.spec)

    def detail(self) -> dict[str, object]:
        """The Service and the clients."""
        spec = self.spec
        sender = spec.source or ",".join(f"{key}={value}" for key, value in spec.labels)
        return {"service": "/".join(spec.service), "sender": sender, "gap_us": spec.gap_us}


def _check(context: UserContext, entry: Requests) -> SendRequests:
    if not context.known.proxied:
        raise context.error(
            "", "the nodes have no proxies, by whose rules requests go", "write spec.cluster.kubeProxy: {}"
        )
    check_object(context, "services", entry.namespace, entry.service, key="service")
    gap_us = context.rate(entry.rate, "rate")
    if gap_us < GAP_MIN_US:
        raise context.error("rate", f"{entry.rate} is too much", "at most 100/s")
    source, labels, namespace = _sender(context, entry)
    dns = None
    if entry.dns is not UNSET:
        space, _, name = entry.dns.partition("/")
        if not name:
            raise context.error("dns", f"{entry.dns!r} is no Service", "write NAMESPACE/NAME")
        if source == OUTSIDE:
            raise context.error("dns", "clients outside do not use the cluster's DNS", "leave 'dns' out")
        check_object(context, "services", space, name, key="dns")
        dns = space, name
    return SendRequests(
        RequestSpec(
            service=(entry.namespace, entry.service),
            gap_us=gap_us,
            port=str(entry.port),
            source=source,
            labels=labels,
            namespace=namespace,
            timeout_us=context.positive(entry.timeout, "timeout"),
            dns=dns,
            ttl_us=context.duration(entry.name_ttl, "nameTtl"),
            takes_us=context.duration(entry.takes, "takes"),
        )
    )


def _sender(context: UserContext, entry: Requests) -> tuple[str, tuple[tuple[str, str], ...], str]:
    """The source of the requests, or the labels and the namespace of pods that send them."""
    if "=" in entry.from_:
        namespace, _, labels = (
            entry.from_.rpartition("/") if "/" in entry.from_.partition("=")[0] else ("", "", entry.from_)
        )
        return "", tuple(context.labels(labels, "from").items()), namespace or entry.namespace
    names = [node.name for node in context.known.nodes]
    if entry.from_ != OUTSIDE and entry.from_ not in names:
        raise context.unknown(
            "from",
            f"{entry.from_!r} is no node, no labels of pods, and not `outside`",
            "write as app=shop, or a node's name",
        )
    return entry.from_, (), ""


KIND = StepKind(
    name="request",
    parameters=Requests,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Users send requests to a Service, by the rules that kube-proxy has written on their node: a request is answered, refused (no
endpoint, or nothing listens there), times out (the endpoint or its machine is gone), is cut off (its server ends), or finds
no name. Needs
`cluster.kubeProxy`; `unavailability: {of: services/web}` counts the failed ones.""",
    example="""
- {at: 17m, request: {service: web, from: outside, rate: 1/s}, for: 1m}
- {at: 17m, request: {service: web, from: app=shop, rate: 2/s, timeout: 2s, dns: default/dns}, for: 1m}""",
)
