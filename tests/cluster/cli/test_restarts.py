"""A cluster with a pending eviction and a fault, after its server was ended, killed and set back."""

from __future__ import annotations

import json
import signal
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kills import Clients, Servers

PODS = "/api/v1/namespaces/default/pods"
CONTROL = "/orrery/v1"
POD = {
    "metadata": {"name": "web"},
    "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "web:1"}]},
}
KEPT = (
    PODS,
    "/api/v1/nodes",
    "/api/v1/namespaces/default/events",
    "/apis/coordination.k8s.io/v1/leases",
    f"{CONTROL}/faults",
    f"{CONTROL}/steps",
    f"{CONTROL}/expectations",
)


def asked(clients: Clients, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request, on a connection of its own."""
    connection, headers = clients.connect()
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    assert answer.status < 300, found
    return found


def followed(clients: Clients, revision: str, until: str) -> list[Any]:
    """The events of pods after a revision, up to the first of a type."""
    connection, headers = clients.connect()
    connection.request("GET", f"{PODS}?watch=1&resourceVersion={revision}", headers=headers)
    found: list[Any] = []
    with connection.getresponse() as answer:
        for line in answer:
            found.append(json.loads(line))
            if found[-1]["type"] in (until, "ERROR"):
                break
    connection.close()
    return found


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.slow
def test_restarted_cluster_continues_with_all_that_was_pending(tmp_path: Path) -> None:
    servers = Servers(tmp_path, 2, "0")
    clients = Clients(servers.config)
    run = f"{CONTROL}/time/run"
    try:
        servers.start()
        asked(clients, "POST", run, {"condition": "all nodes are ready", "fast": True})
        asked(clients, "POST", run, {"for": "10s", "fast": True})
        asked(clients, "POST", PODS, POD)
        asked(clients, "POST", run, {"for": "20s", "fast": True})
        early = asked(clients, "GET", PODS)["metadata"]["resourceVersion"]
        asked(
            clients, "POST", f"{CONTROL}/steps", {"fail": {"nodes": {"name": "node-0"}, "how": "power-loss"}}
        )
        asked(clients, "POST", f"{CONTROL}/expectations", {"never": "any nodes have Ready=False"})
        asked(clients, "POST", run, {"condition": "any nodes have Ready=Unknown", "fast": True})
        # The eviction is due in four minutes then.
        asked(clients, "POST", run, {"for": "1m", "fast": True})
        (taint,) = [
            one
            for one in asked(clients, "GET", "/api/v1/nodes/node-0")["spec"]["taints"]
            if one["effect"] == "NoExecute"
        ]
        before = {path: asked(clients, "GET", path) for path in KEPT}
        clock = asked(clients, "GET", f"{CONTROL}/state")["virtual_us"]
        for sent, back_s in ((signal.SIGINT, 0), (signal.SIGKILL, 0), (signal.SIGKILL, 86_400)):
            servers.end(sent)
            servers.start(back_s)
            assert {path: asked(clients, "GET", path) for path in KEPT} == before
            assert asked(clients, "GET", f"{CONTROL}/state")["virtual_us"] == clock
        events: list[Any] = []
        follower = threading.Thread(target=lambda: events.extend(followed(clients, early, "DELETED")))
        follower.start()
        asked(clients, "POST", run, {"for": "10m", "fast": True})
        marked = next(one for one in asked(clients, "GET", PODS)["items"])["metadata"]
        asked(clients, "DELETE", f"{PODS}/web?gracePeriodSeconds=0")
        asked(clients, "POST", run, {"for": "1s", "fast": True})
        follower.join()
    finally:
        servers.end(signal.SIGKILL)
        servers.close()
    evicted_s = seconds(marked["deletionTimestamp"]) - marked["deletionGracePeriodSeconds"]
    assert 299 <= evicted_s - seconds(taint["timeAdded"]) <= 301
    assert [one["type"] for one in events][-1] == "DELETED"
    revisions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert revisions == sorted(revisions)
    assert {one["object"]["metadata"]["uid"] for one in events} == {marked["uid"]}


@pytest.mark.slow
def test_server_that_is_killed_while_it_starts_first_is_started_again(tmp_path: Path) -> None:
    servers = Servers(tmp_path, 0, "0")
    clients = Clients(servers.config)
    try:
        for delay_s in (0.05, 0.1, 0.2, 0.3, 0.4, 0.6):
            servers.begin()
            threading.Event().wait(delay_s)  # what is measured: a kill at any instant
            servers.end(signal.SIGKILL)
        servers.start()
        asked(clients, "POST", f"{CONTROL}/time/run", {"for": "5s", "fast": True})
        maps = asked(clients, "GET", "/api/v1/namespaces/default/configmaps")["items"]
        assert [one["metadata"]["name"] for one in maps] == ["kube-root-ca.crt"]
    finally:
        servers.end(signal.SIGKILL)
        servers.close()
