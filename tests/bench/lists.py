"""What postings save: the calls of functions of lists that select objects by a label.

python -m tests.bench.lists [OBJECTS [LISTS]]     default: 1,500 and 100

A program stores config maps, of which ten have each value of a label, and lists those of one value
after another, each after a change of one object.  Calls are those that the profiler counts.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from dataclasses import replace
from functools import partial

import trio

from sim.app.cluster import Cluster
from sim.client import Client
from sim.kernel.fast import FAST, FastPaths

OF_ONE = 10


async def program(client: Client, objects: int, lists: int, profile: cProfile.Profile) -> None:
    """Store, then list under the profiler."""
    for number in range(objects):
        metadata = {"name": f"m-{number}", "labels": {"app": f"a-{number // OF_ONE}"}}
        await client.create("configmaps", "default", {"metadata": metadata})
    for number in range(lists):
        change = {"data": {"changed": str(number)}}
        await client.patch("configmaps", "default", f"m-{number}", change)
        profile.enable()
        reply = await client.list("configmaps", "default", f"app=a-{number % (objects // OF_ONE)}")
        profile.disable()
        assert len(reply.items or ()) == OF_ONE, reply


async def measure(objects: int, lists: int, fast: FastPaths) -> None:
    profile = cProfile.Profile()
    async with Cluster(fast=fast) as cluster:
        run = partial(program, objects=objects, lists=lists, profile=profile)
        cluster.add_program("lister", run, qps=1e6, burst=1_000_000)
        await cluster.run_for("2m")
    print(f"postings {fast.postings}: {pstats.Stats(profile).total_calls:,} calls")


def main() -> None:
    objects, lists = map(int, [*sys.argv[1:], *("1500", "100")[len(sys.argv) - 1 :]])
    for fast in (FAST, replace(FAST, postings=False)):
        trio.run(measure, objects, lists, fast)


if __name__ == "__main__":
    main()
