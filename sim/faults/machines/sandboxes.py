"""sandboxes: pods get no sandbox on nodes that are Ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import NodesField, Strict
from sim.kernel.draws.streams import key_of

_ALL = 100


class Sandboxes(Strict, kw_only=True):
    """The parameters of `sandboxes`."""

    nodes: NodesField
    message: Annotated[str, Meta(min_length=1, description="Why the sandbox cannot be made.")] = (
        'failed to setup network for sandbox: plugin type="aws-cni" name="aws-cni" failed (add): add cmd: '
        "failed to assign an IP address to container"
    )
    share: Annotated[
        int, Meta(ge=1, le=_ALL, description="Percent of the pods that get none; each pod is drawn once.")
    ] = _ALL
    namespace: Annotated[str, Meta(description="Of the pods; empty: any.")] = ""
    selector: Annotated[str, Meta(description="Labels of the pods, as `app=web`.")] = ""


@dataclass(frozen=True, slots=True)
class RefuseSandboxes(Imposed):
    """Pods on these nodes get no sandbox: those that are drawn, and match namespace and labels."""

    nodes: tuple[str, ...]
    message: str
    share: int
    namespace: str
    labels: Mapping[str, str]
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """Each node makes no more sandboxes for such pods; those that there are stay."""
        seed = stage.cluster.kernel.seed

        def problem(pod: Mapping[str, Any]) -> str:
            meta = pod["metadata"]
            labels = meta.get("labels") or {}
            if self.namespace not in ("", meta["namespace"]):
                return ""
            if any(labels.get(name) != value for name, value in self.labels.items()):
                return ""
            draw = key_of(seed, f"sandboxes/{step}/{meta['uid']}") % _ALL
            return self.message if draw < self.share else ""

        for node in self.nodes:
            stage.faults.impose(step, node, "sandboxes", problem)


def _check(context: Context, given: Sandboxes) -> RefuseSandboxes:
    labels = context.labels(given.selector)
    return RefuseSandboxes(context.nodes(given.nodes), given.message, given.share, given.namespace, labels)


def _settle(ledger: Ledger, name: str) -> None:
    ledger.cluster.nodes[name].fail_sandboxes(ledger.values(name, "sandboxes"))


def _attribute(ledger: Ledger, name: str, record: int) -> None:
    ledger.cluster.nodes[name].machine.note_fault("sandboxes", record)


FAULT = Fault(
    name="sandboxes",
    parameters=Sandboxes,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Pods get no sandbox on nodes that stay Ready, as when a network plug-in has no address left: they stay in ContainerCreating
with the event FailedCreatePodSandBox and its message, and the agent tries again each 10 to 15 s, while the scheduler sends the
node more. Pods of the host's network, and sandboxes that there are, are not concerned. Without a step it happens when all
addresses of the range that the Node object has (`podCIDR`) are used.""",
    example="""
- {at: 3m, sandboxes: {nodes: {zone: a}, share: 50, selector: app=web}, for: 5m}
- {at: 3m, sandboxes: {nodes: {name: node-a-0}, message: "failed to reserve sandbox name"}}""",
    drawn="""
- {sandboxes: {nodes: {pick: 1}}, for: 30s..5m, values: {sandboxes.share: [30, 100]}}""",
    aspects=(Aspect("sandboxes", _settle, attribute=_attribute),),
)
