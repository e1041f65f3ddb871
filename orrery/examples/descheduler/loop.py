"""The shell of the descheduler: it lists, and evicts by the subresource that keeps budgets.

Holds: it remembers nothing between two passes, so that a crash loses nothing.

Mirrors  kubernetes-sigs/descheduler v0.25 pkg/descheduler/descheduler.go: RunDeschedulerStrategies;
         pkg/descheduler/evictions/evictions.go: EvictPod.
"""

from __future__ import annotations

from orrery.examples.descheduler.decide import Eviction, Policy, plan
from sim.client import Client

DEFAULT = Policy()


async def run(client: Client, policy: Policy = DEFAULT) -> None:
    """Plan and evict, pass after pass."""
    start = client.ctx.kernel.cause
    while True:
        await _pass(client, policy)
        await client.ctx.sleep_us(policy.interval_us)
        client.ctx.kernel.follow(start)  # a pass does not happen because of the one before it


async def _pass(client: Client, policy: Policy) -> None:
    nodes, pods = await client.list("nodes"), await client.list("pods")
    if not (nodes.ok and pods.ok):
        return
    steps = plan(
        [item.obj for item in nodes.items or ()],
        [item.obj for item in pods.items or ()],
        policy,
        client.scheme.names,
    )
    try:
        eviction = next(steps)
        while True:
            eviction = steps.send(await _evict(client, eviction))
    except StopIteration:
        return


async def _evict(client: Client, eviction: Eviction) -> bool:
    """Evict a pod; False if its budget, or anything else, does not allow it."""
    meta = eviction.pod["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    # With a message, `orrery why` shows it as the reason of the eviction.
    why = {"message": f"{eviction.strategy} on {eviction.node}"}
    client.ctx.decided("evict", f"pods/{namespace}/{name}", why)
    body = {
        "apiVersion": client.scheme.names.api_version("policy", "v1"),
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    reply = await client.create("pods", namespace, body, name=name, subresource="eviction")
    return reply.ok
