"""Node IPAM controller: gives each node its pod CIDR, by the allocator that the options name.

Holds: runs only with `allocate-node-cidrs`; a node with a CIDR that no cluster network can hold
       ends the process, at each start.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/core.go (startNodeIpamController),
         pkg/controller/nodeipam/node_ipam_controller.go, ipam/controller_legacyprovider.go
         (listNodes, apiserverStartupGracePeriod).
"""

from __future__ import annotations

from actors.controllers.nodeipam.cloud_allocator import CloudAllocator
from actors.controllers.nodeipam.range_allocator import Clash, RangeAllocator
from actors.controllers.shared.shell import Env
from sim.api.types import Obj
from sim.client import Client
from sim.units import MINUTE, SECOND

CLIENT = "node-controller"
COMPONENT = "cidrAllocator"
POLL_US, GRACE_US = 10 * SECOND, 10 * MINUTE


async def start(env: Env) -> None:
    """Run the allocator until its process ends."""
    client = env.client(CLIENT)
    recorder = env.recorder(COMPONENT, client)
    if env.options.takes_ranges_of_cloud:
        assert env.cloud is not None  # the options require a cloud provider
        await CloudAllocator(env, client, recorder, env.cloud).run()
        return
    allocator = RangeAllocator(env, client, recorder)
    try:
        await allocator.run(await _nodes(env, client))
    except Clash as problem:
        env.ctx.exit(f"error starting controllers: {problem}")


async def _nodes(env: Env, client: Client) -> list[Obj]:
    """All nodes, asked for until there is an answer."""
    until_us = env.ctx.now_us() + GRACE_US
    while True:
        reply = await client.list("nodes")
        if reply.ok:
            return [item.obj for item in reply.items or ()]
        if env.ctx.now_us() >= until_us:
            env.ctx.exit("failed to list all nodes in 10m0s, cannot proceed without updating CIDR map")
        await env.ctx.sleep_us(POLL_US)
