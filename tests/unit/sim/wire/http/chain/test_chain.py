"""The chain of stages: its order is that of ARCHITECTURE's table, and idle stages find nothing."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sim.ident import NAMES
from sim.wire.exchange import Exchange
from sim.wire.http.chain import front
from sim.wire.http.chain.impersonation import Impersonator
from sim.wire.http.chain.information import KNOWN_LENGTH, check_timeout, find_information
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.refused import Refused

ROOT = Path(__file__).parents[6]


def request_to(target: str, method: str = "GET", headers: dict[str, str] | None = None) -> HttpRequest:
    path, _, query = target.partition("?")
    scope = {
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    unused: Any = None
    return HttpRequest(Exchange(scope), 0, unused, unused)


def composed(audit: Any) -> list[str]:
    """The modules of the stages of a front, in their order."""
    scheme: Any = SimpleNamespace(names=NAMES["kubernetes"])
    gateway: Any = SimpleNamespace(judge=None, wall_us=None)
    unused: Any = None
    made = front.Front(scheme, gateway, unused, unused, unused, unused, unused, audit)
    modules = [getattr(stage, "__module__", "") for stage in made._stages]
    return [module.rpartition(".")[2] for module in modules]


def test_stages_come_in_the_order_of_the_table_of_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text[text.index("| stage |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    found = composed(audit=object())
    assert [name for n, name in enumerate(found) if found[n - 1 : n] != [name]] == rows


def test_server_without_an_audit_has_no_stage_for_it() -> None:
    assert "audit" not in composed(audit=None)


def test_equal_requests_are_read_once_and_long_ones_are_not_kept() -> None:
    for query, kept in (("limit=1", True), (f"labelSelector={'a' * KNOWN_LENGTH}", False)):
        first, second = (request_to(f"/api/v1/pods?{query}") for _ in range(2))
        assert (find_information(first), find_information(second)) == (None, None)
        assert first.attributes == second.attributes
        assert (first.attributes is second.attributes) == kept


@pytest.mark.parametrize(("path", "code"), [("/api/v1/pods/%zz", 400), ("/api/v1/pods", None)])
def test_broken_escape_is_answered_by_the_first_stage(path: str, code: int | None) -> None:
    found = find_information(request_to(path))
    assert (found and found.code) == code


def test_information_reads_path_query_and_attributes_once() -> None:
    request = request_to("/api/v1/namespaces/a%2Eb/pods/c?timeout=3s&timeout=x&pretty=1")
    assert find_information(request) is None
    assert request.path == "/api/v1/namespaces/a.b/pods/c"
    assert request.options == {"timeout": "3s", "pretty": "1"}
    asked = request.attributes
    assert (asked.verb, asked.namespace, asked.resource, asked.name) == ("get", "a.b", "pods", "c")


def test_time_out_that_is_no_duration_is_refused_except_for_watches() -> None:
    request = request_to("/api/v1/pods/a?timeout=soon")
    find_information(request)
    with pytest.raises(Refused) as refused:
        check_timeout(request)
    assert refused.value.body["code"] == 400
    watch = request_to("/api/v1/pods?watch=1&timeout=soon")
    find_information(watch)
    check_timeout(watch)


def test_request_without_headers_of_impersonation_asks_no_authorizer() -> None:
    stage = Impersonator(None, None, None)  # type: ignore[arg-type]
    assert stage(request_to("/api", headers={"accept": "*/*", "authorization": "Bearer x"})) is None
