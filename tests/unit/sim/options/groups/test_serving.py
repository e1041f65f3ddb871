"""What the server of a daemon does with probes, by its options."""

from __future__ import annotations

import pytest

from sim.errors import InputError
from sim.ident import NAMES
from sim.options.controllers.manager import parse_controller_manager
from sim.options.groups.serving import Access
from sim.options.scheduler import parse_scheduler

CONFIG = {
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "c"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://apiserver-0"}}],
}


@pytest.mark.parametrize(
    ("flags", "access"),
    [
        ({}, Access.ALLOWED),
        ({"secure-port": 0}, Access.REFUSED),
        ({"secure-port": 10258}, Access.REFUSED),
        ({"bind-address": "10.0.0.7"}, Access.REFUSED),
        ({"bind-address": "127.0.0.1"}, Access.ALLOWED),
        ({"bind-address": "::"}, Access.ALLOWED),
        ({"authorization-always-allow-paths": "/livez"}, Access.FORBIDDEN),
        ({"authorization-always-allow-paths": "/health*"}, Access.ALLOWED),
        ({"authorization-always-allow-paths": "healthz"}, Access.ALLOWED),
        (
            {"authorization-always-allow-paths": "/livez", "authorization-kubeconfig": CONFIG},
            Access.REVIEWED,
        ),
    ],
)
def test_options_decide_what_a_server_does_with_probes(flags: dict[str, object], access: Access) -> None:
    names = NAMES["kubernetes"]
    assert parse_controller_manager(flags, names=names).access(10257, "/healthz") is access


def test_scheduler_has_a_port_of_its_own() -> None:
    assert parse_scheduler({}).access(10259, "/healthz") is Access.ALLOWED
    assert parse_scheduler({"secure-port": 10257}).access(10259, "/healthz") is Access.REFUSED


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"secure-port": 65536}, "must be between 0 and 65535"),
        ({"bind-address": "localhost"}, "failed to parse IP"),
        ({"authorization-always-allow-paths": "/a*b"}, r'only trailing \* allowed in "/a\*b"'),
        ({"authorization-kubeconfig": {"a": "b"}}, "authorization config: current-context is missing"),
    ],
)
def test_options_of_a_server_that_are_wrong_are_refused(flags: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_controller_manager(flags, names=NAMES["kubernetes"])
