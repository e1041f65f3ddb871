"""What a connection meets at an endpoint."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from actors.node.programs.network.services import Endpoint, Route
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.profile import ContainerBehaviour
from actors.users.requests import Reach
from sim.app.parts.traffic.names import chosen
from sim.app.parts.traffic.reach import answer_of, serving

NOW = 100


def started(
    pod: PodRuntime, name: str, attempt: int = 0, exit_us: int | None = None, **behaviour: Any
) -> Container:
    """A container that was started at 0."""
    container = Container(pod, name, attempt, "i", ContainerBehaviour(**behaviour))
    container.started_us, container.exit_us = 0, exit_us
    pod.add(container)
    return container


def test_port_leads_to_the_container_that_declares_it_or_the_first() -> None:
    pod = PodRuntime("u", "default", "web")
    web, proxy = started(pod, "web"), started(pod, "proxy")
    spec = {"containers": [{"name": "web"}, {"name": "proxy", "ports": [{"containerPort": 8443}]}]}
    assert serving(pod, spec, 8443, NOW) is proxy
    assert serving(pod, spec, 8080, NOW) is web
    assert serving(pod, {"containers": [{"name": "none"}]}, 80, NOW) is None


def test_pod_that_the_api_has_no_more_serves_by_what_still_runs() -> None:
    pod = PodRuntime("u", "default", "web")
    started(pod, "init", exit_us=5)
    web = started(pod, "web", exit_us=NOW + 1)
    assert serving(pod, None, 80, NOW) is web
    assert serving(pod, None, 80, NOW + 1) is None


@pytest.mark.parametrize(
    ("behaviour", "exit_us", "unhealthy", "reach"),
    [
        ({}, None, None, Reach.ANSWERS),
        ({}, NOW + 1, None, Reach.ANSWERS),  # it ends, and serves until then
        ({}, NOW, None, Reach.REFUSES),
        ({"healthy_after_us": NOW}, None, None, Reach.ANSWERS),
        ({"healthy_after_us": NOW + 1}, None, None, Reach.REFUSES),
        ({"unhealthy_after_us": NOW}, None, None, Reach.SILENT),
        ({"healthy_after_us": NOW + 1}, None, True, Reach.SILENT),
        ({"healthy_after_us": NOW + 1}, None, False, Reach.ANSWERS),
    ],
)
def test_container_answers_while_it_runs_and_is_healthy(
    behaviour: dict[str, Any], exit_us: int | None, unhealthy: bool | None, reach: Reach
) -> None:
    container = started(PodRuntime("u", "default", "web"), "web", exit_us=exit_us, **behaviour)
    container.unhealthy = unhealthy
    assert answer_of(container, NOW) is reach


def test_container_that_never_ran_refuses() -> None:
    assert answer_of(None, NOW) is Reach.REFUSES


def test_connection_without_a_rule_is_unanswered_and_without_an_endpoint_refused() -> None:
    name, only = ("default", "web", ""), Endpoint("10.0.0.1", 80)
    assert chosen(None, Random(1)) is Reach.SILENT
    assert chosen(Route(name, dropped=True), Random(1)) is Reach.SILENT
    assert chosen(Route(name), Random(1)) is Reach.REFUSES
    assert chosen(Route(name, (only,)), Random(1)) is only


def test_connections_go_to_each_endpoint_alike() -> None:
    ends = tuple(Endpoint(f"10.0.0.{number}", 80) for number in range(3))
    draw, way = Random(1), Route(("default", "web", ""), ends)
    counts = Counter(chosen(way, draw) for _ in range(3_000))
    assert [round(counts[end], -2) for end in ends] == [1_000, 1_000, 1_000]
