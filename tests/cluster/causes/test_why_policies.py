"""NetworkPolicies drop packets where a scenario says so, and `orrery why` of both pods names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.inspect.why import find_story
from sim.app.run import run_plan
from sim.scenario.compile import load

Obj = dict[str, Any]
DNS = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
FROM_CLIENT = {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [{"port": "http"}]}
FETCH = "sleep 20; wget -q -T 5 -O- http://web >/dev/null"


def pod(name: str, **container: Any) -> Obj:
    labels = {"app": name}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def policy(name: str, app: str, **spec: Any) -> Obj:
    selector = {"podSelector": {"matchLabels": {"app": app} if app else {}}}
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
        "spec": {**selector, **spec},
    }  # fmt: skip


DENY_IN = policy("deny-in", "")
DENY_OUT = policy("deny-out", "client", policyTypes=["Egress"])
ALLOW_IN = policy("allow-in", "web", ingress=[FROM_CLIENT])
ALLOW_DNS = policy(
    "allow-dns", "client", policyTypes=["Egress"], egress=[{"to": [DNS], "ports": [{"port": 53, "protocol": "UDP"}]}]
)  # fmt: skip
ALLOW_OUT = policy(
    "allow-out", "client", policyTypes=["Egress"], egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]
)


async def story(folder: Path, policies: list[Obj], *, enforced: bool = True) -> tuple[list[str], list[str]]:
    """The stories of the client and of the server."""
    ports = [{"name": "http", "containerPort": 80}]
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 2, "failureThreshold": 1}
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }  # fmt: skip
    web = pod("web", image="nginx:1.23", ports=ports, livenessProbe=probe)
    client = pod("client", image="busybox:1.35", command=["sh", "-c", FETCH])
    cluster: Obj = {
        "naming": "kubernetes",
        "nodes": [{"count": 2, "flags": {"cluster-domain": "cluster.local"}}],
        **({"networkPolicies": "enforced"} if enforced else {}),
    }
    value = {
        "apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"},
        "spec": {"duration": "2m", "cluster": cluster, "objects": [service, *policies, web, client]},
    }  # fmt: skip
    file, trace = folder / "s.yaml", folder / "s.trace"
    file.write_text(yaml.safe_dump(value))
    await run_plan(load(file), trace_file=trace)
    found = [[line.text for line in find_story(trace, f"pod/{name}").lines] for name in ("client", "web")]
    return found[0], found[1]


def has(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


DROPS_IN = "port 80/TCP: NetworkPolicies default/deny-in allow no such ingress"
DROPS_OUT = "drops packets of pods/default/client to"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "dropped"),
    [
        ([DENY_IN], DROPS_IN),
        ([DENY_OUT], "port 53/UDP: NetworkPolicies default/deny-out allow no such egress"),
        ([DENY_OUT, ALLOW_DNS], "port 80/TCP: NetworkPolicies default/allow-dns, default/deny-out allow no"),
    ],
)
async def test_what_policies_drop_times_out_and_why_names_them(
    tmp_path: Path, policies: list[Obj], dropped: str
) -> None:
    client, web = await story(tmp_path, policies)
    assert has(client, dropped), client
    assert has(client, "c with exit code 1 (Error)"), client
    assert has(web, DROPS_IN) is (dropped == DROPS_IN), web
    assert has(client, DROPS_OUT) is (dropped != DROPS_IN)
    assert not has(web, "Unhealthy")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "enforced"),
    [
        ([DENY_IN, DENY_OUT], False),
        ([DENY_IN, ALLOW_IN], True),
        ([DENY_IN, ALLOW_IN, DENY_OUT, ALLOW_DNS, ALLOW_OUT], True),
    ],
)
async def test_what_policies_allow_passes_and_all_does_by_default(
    tmp_path: Path, policies: list[Obj], enforced: bool
) -> None:
    client, web = await story(tmp_path, policies, enforced=enforced)
    assert has(client, "c with exit code 0 (Completed)"), client
    assert not has(client, "drops packets") and not has(web, "drops packets")
