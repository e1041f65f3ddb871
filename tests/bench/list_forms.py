"""Processor time of a client that reads a list of pods: JSON and protobuf.

    python -m tests.bench.list_forms [--pods N]

The pods have the fields that a server and an agent give a running one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from time import process_time
from typing import Any

import msgspec

from sim.api.messages.protobuf_encode import envelope, items_message, message
from sim.api.scheme.scheme import Scheme
from sim.api.types import Request, UserInfo
from sim.app.cluster import Cluster
from sim.ident import NAMES
from sim.wire.rest.answers import reply_of

NAMED = NAMES["kubernetes"]
META = {"resourceVersion": "5"}


async def a_pod() -> Mapping[str, Any]:
    """A running pod of a cluster."""
    async with Cluster(naming="kubernetes", nodes=1) as cluster:
        container = {"name": "c", "image": "i:1"}
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a"},
                "spec": {"containers": [container]},
            }
        )
        await cluster.run_for("30s")
        [pod] = cluster.list("pods")
        return pod


def bodies(pod: Mapping[str, Any], count: int) -> Mapping[str, bytes]:
    """The list by the type of its form."""
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": f"pod-{index}", "resourceVersion": "5"}}
        for index in range(count)
    ]
    whole = {"kind": "PodList", "apiVersion": "v1", "metadata": META, "items": pods}
    packed = items_message(META, [message(each, NAMED) for each in pods])
    return {
        NAMED.media_json: msgspec.json.encode(whole),
        NAMED.media_protobuf: envelope("v1", "PodList", packed),
    }


async def main(count: int) -> None:
    """Print size and time of both forms."""
    scheme = Scheme(NAMED)
    request = Request(verb="list", resource="pods", user=UserInfo("u"))
    for media, body in bodies(await a_pod(), count).items():
        began_s = process_time()
        reply = reply_of(scheme, request, 200, {"content-type": media}, body)
        taken_s = process_time() - began_s
        assert reply.items is not None and len(reply.items) == count
        print(f"{media}: {len(body) / 1e6:.1f} MB, {taken_s:.2f} s of processor time")


if __name__ == "__main__":
    import trio

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    trio.run(main, parser.parse_args().pods)
