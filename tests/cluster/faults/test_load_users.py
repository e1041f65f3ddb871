"""Load that ordinary users send, by several programs, to servers with a capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.cluster import Cluster
from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
from sim.scenario.compile import load
from sim.units import NANO, Virtual

AGENT = "system:serviceaccount:telemetry:agent"
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
GRANT = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "telemetry"},
    "roleRef": ROLE,
    "subjects": [{"kind": "ServiceAccount", "namespace": "telemetry", "name": "agent"}],
}  # fmt: skip


def scenario(folder: Path, step: Any, server: Any = None, objects: Any = ()) -> Path:
    cluster = {"naming": "kubernetes", "nodes": [{"count": 1}], "apiServer": server or {}, "boot": "0s"}
    spec = {
        "duration": "90s", "cluster": cluster, "objects": [*objects],
        "timeline": [{"at": "30s", "name": "flood", "for": "30s", "load": step}],
    }  # fmt: skip
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    file = folder / "s.yaml"
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    return file


async def counts(
    folder: Path, step: Any, server: Any = None, objects: Any = ()
) -> tuple[int, int, list[str]]:
    """Requests sent and failed, and what the report says was refused."""
    trace = folder / "s.trace"
    result = await run_plan(load(scenario(folder, step, server, objects)), trace_file=trace, picture=False)
    (done,) = [record.values for record in read(trace) if record.kind == "load"]
    return done["sent"], done["failed"], [text for text in result.refused if "load" in text]


@pytest.mark.slow
async def test_load_of_a_user_without_rights_is_refused_and_reported(tmp_path: Path) -> None:
    step = {"rate": "2/s", "list": "pods", "user": AGENT}
    sent, failed, refused = await counts(tmp_path, step)
    assert sent == failed > 20
    assert len(refused) == 1 and f'User "{AGENT}" cannot list' in refused[0]
    sent, failed, refused = await counts(tmp_path, step, objects=[GRANT])
    assert sent > 20 and failed == 0 and refused == []


@pytest.mark.slow
async def test_load_of_a_user_waits_for_seats_and_that_of_an_administrator_does_not(tmp_path: Path) -> None:
    step, server = {"rate": "60/s", "list": "clusterroles"}, {"capacity": "100m"}
    flags = {"max-requests-inflight": 20, "max-mutating-requests-inflight": 20}
    full = {**server, "flags": flags}
    _, failed, _ = await counts(tmp_path, {**step, "user": "ann", "groups": ["system:masters"]}, full)
    assert failed == 0
    subjects = [{"kind": "User", "name": "ann"}]
    grant = {**GRANT, "subjects": subjects, "roleRef": {**ROLE, "name": "cluster-admin"}}
    _, failed, _ = await counts(tmp_path, {**step, "user": "ann", "clients": 3}, full, [grant])
    assert failed > 0


def test_capacity_is_a_number_of_processors(tmp_path: Path) -> None:
    step = {"rate": "1/s", "list": "pods"}
    for given, nano in ((2, 2 * NANO), ("500m", NANO // 2), (None, 0)):
        plan = load(scenario(tmp_path, step, {"capacity": given}))
        assert plan.cluster.api_server.capacity_nano == nano


@pytest.mark.parametrize(
    ("step", "server", "message"),
    [
        ({"groups": ["a"]}, {}, "'groups' goes with 'user'"),
        ({"clients": 0}, {}, "expected a whole number >= 1"),
        ({"clients": 20_000}, {}, "expected a whole number <= 10000"),
        ({"usr": "a"}, {}, "unknown field 'usr'"),
        ({}, {"capacity": "many"}, "'many' is not a quantity"),
        ({}, {"capacity": 0}, "a server has from 1m to 1024 processors"),
        ({}, {"capacity": -1}, "a server has from 1m to 1024 processors"),
        ({}, {"capacity": "2Ki"}, "a server has from 1m to 1024 processors"),
        ({}, {"capacity": True}, "capacity"),
    ],
)
def test_wrong_load_or_capacity_is_refused(tmp_path: Path, step: Any, server: Any, message: str) -> None:
    file = scenario(tmp_path, {"rate": "1/s", "list": "pods", **step}, server)
    with pytest.raises(InputError, match=message) as refusal:
        load(file)
    assert refusal.value.place.startswith(str(file))


def test_capacity_belongs_to_api_servers_alone(tmp_path: Path) -> None:
    file = scenario(tmp_path, {"rate": "1/s", "list": "pods"})
    file.write_text(file.read_text().replace("apiServer: {}", "scheduler: {capacity: 2}"))
    with pytest.raises(InputError, match="unknown field 'capacity'"):
        load(file)


@pytest.mark.slow
async def test_load_explains_what_a_full_server_misses(tmp_path: Path) -> None:
    """The silence of a node is caused by the step, if servers have a capacity."""
    for server, expected in (({"capacity": "100m"}, True), ({}, False)):
        plan = load(scenario(tmp_path, {"rate": "1/s", "list": "pods"}, server))
        async with Cluster(plan.cluster) as cluster:
            cluster.do.load(rate="1/s", list="pods")
            await cluster.run_for("10s")
            found = cluster.kernel.standing.silence("node-0", "controller-manager-0", Virtual(0))
            assert (found > 0) is expected
