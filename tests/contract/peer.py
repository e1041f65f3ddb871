"""A client process of its own: `python -m tests.contract.peer URL` writes, watches and prints what
it saw.
"""

from __future__ import annotations

import json
import sys

import trio

from sim.client import Client, Informers
from sim.kernel import NEVER_US, Context, Kernel, Supervisor
from sim.wire.sockets_client import SocketClients
from tests.actor.apiserver.cluster import ADMIN, SCHEME, lease


async def run(url: str) -> list[tuple[str, str]]:
    kernel, seen = Kernel(9), list[tuple[str, str]]()
    async with trio.open_nursery() as nursery:
        clients = SocketClients(kernel, nursery)

        async def main(ctx: Context) -> None:
            client = Client(ctx, SCHEME, [clients.transport(ctx, url)], ADMIN, qps=0)
            informers = Informers(ctx, client)
            everything = ctx.future("what was written")

            def note(what: str, name: str) -> None:
                seen.append((what, name))
                if what == "delete":
                    everything.set(None)

            informers["leases"].on(
                add=lambda obj: note("add", obj["metadata"]["name"]),
                delete=lambda obj: note("delete", obj["metadata"]["name"]),
            )
            await informers.start_and_sync()
            await client.create("leases", "default", lease("theirs"))
            await client.delete("leases", "default", "theirs")
            await everything.wait()
            kernel.stop()

        Supervisor(kernel, nursery).add("peer", main)
        kernel.set_rate(1)
        kernel.set_goal(NEVER_US)
        await kernel.run()
        nursery.cancel_scope.cancel()
    return seen


if __name__ == "__main__":
    json.dump(trio.run(run, sys.argv[1]), sys.stdout)
