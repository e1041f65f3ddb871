"""Logs of pods: what may be asked, and of which container."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.refusals import Refusal
from sim.api.verbs.log import agent_of, container_of, errors_of


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tailLines": "0", "limitBytes": "1", "sinceSeconds": "1"}, []),
        ({"tailLines": "-1"}, ["Invalid value: -1: must be greater than or equal to 0"]),
        ({"limitBytes": "0"}, ["Invalid value: 0: must be greater than 0"]),
        ({"sinceSeconds": "0"}, ["Invalid value: 0: must be greater than 0"]),
        (
            {"sinceSeconds": "1", "sinceTime": "2020-01-01T00:00:00Z"},
            ["Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"],
        ),
    ],
)
def test_what_is_wrong_with_the_options(options: dict[str, str], says: list[str]) -> None:
    assert [error.message for error in errors_of(options)] == says


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(Refusal):
        errors_of({"tailLines": "many"})


def pod(*names: str) -> dict[str, Any]:
    containers = [{"name": name} for name in names]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": [{"name": "i"}]}}


def test_a_container_is_named_where_there_are_several() -> None:
    assert container_of(pod("a"), "") == "a"
    assert container_of(pod("a", "b"), "b") == "b"
    assert container_of(pod("a"), "i") == "i"
    with pytest.raises(Refusal) as refused:
        container_of(pod("a", "b"), "")
    assert "choose one of: [i a b]" in refused.value.body["message"]
    with pytest.raises(Refusal) as refused:
        container_of(pod("a"), "z")
    assert refused.value.body["message"] == "container z is not valid for pod p"


def test_a_text_longer_than_a_number_is_refused() -> None:
    with pytest.raises(Refusal, match="value out of range"):
        errors_of({"tailLines": "9" * 5000})


def test_time_that_is_none_is_refused_as_go_words_it() -> None:
    with pytest.raises(Refusal, match='parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x"'):
        errors_of({"sinceTime": "x"})


def test_agent_is_reached_at_the_internal_address_of_its_node() -> None:
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.9"}]
    assert agent_of({"status": {"addresses": addresses}}) == ("10.0.0.9", 10250)
    port = {"kubeletEndpoint": {"Port": 7}}
    assert agent_of({"status": {"addresses": addresses[:1], "daemonEndpoints": port}}) == ("n", 7)
    with pytest.raises(Refusal, match=r"no preferred addresses found; known addresses: \[\]"):
        agent_of({})
