"""The limit of descriptors, and the bound on connections below it."""

from __future__ import annotations

import resource

import pytest

from sim.app.serving import serve
from sim.errors import InputError
from sim.wire import descriptors
from sim.wire.descriptors import CONNECTIONS_MAX, RESERVED, connections_below, default_connections


@pytest.mark.parametrize(
    ("limit", "most"), [(1024, 1024 - RESERVED), (256, 256 - RESERVED), (64, 32), (1, 1)]
)
def test_connections_stay_below_the_limit_of_descriptors(limit: int, most: int) -> None:
    assert connections_below(limit) == most


@pytest.mark.parametrize(("soft", "most"), [(256, 256 - RESERVED), (resource.RLIM_INFINITY, CONNECTIONS_MAX)])
def test_default_bound_follows_the_soft_limit(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert default_connections() == most


@pytest.mark.parametrize("error", [None, OSError, ValueError])
def test_soft_limit_is_raised_to_the_hard_limit_where_that_is_permitted(
    error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        if error is not None:
            raise error

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    descriptors.raise_descriptor_limit()
    assert asked == [(4096, 4096)]


def test_more_connections_than_descriptors_allow_are_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "descriptor_limit", lambda: 256)
    serve._check_connections(None)
    serve._check_connections(192)
    with pytest.raises(InputError, match="193 connections need more file descriptors") as raised:
        serve._check_connections(193)
    assert raised.value.remedy == "at most 192, or raise ulimit -n"
