"""What is remembered of requests from outside, beside a new decision."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.builtin.bootstrap_flows import levels, schemas
from sim.api.auth.authenticator import AudienceAgnostic, Authenticator
from sim.api.auth.authenticators.client_certificates import ClientCertificates
from sim.api.auth.authenticators.token_file import StaticTokens
from sim.api.fairness.classification import Asked, Plan
from sim.api.types import UserInfo
from sim.ident import NAMES
from sim.wire.exchange import PEER, Exchange
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.chain.authentication import Authentication, Identification
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.forms import negotiation
from sim.wire.http.measures.counts import Counts
from sim.wire.http.refused import Refused

N = NAMES["kubernetes"]
USERS = {"root": UserInfo("admin", (N.group_masters,)), "a": UserInfo("alice"), "b": UserInfo("bob")}
HEADERS = st.sampled_from(
    ["", "Bearer root", "Bearer a", "bearer a", "Bearer  a", "Bearer b", "Bearer no", "Basic a", "Bearer a b"]
)


async def _no_service(_: Any) -> None:
    raise AssertionError("no service is asked")


def stage() -> Authentication:
    tokens = AudienceAgnostic(("api",), StaticTokens(USERS).authenticate)
    requests = [ClientCertificates(lambda: 0).authenticate]
    authenticator = Authenticator(N, requests, [tokens.authenticate], ("api",), anonymous=False)
    return Authentication(
        Identification(authenticator, CertificateReader(), _no_service), Counts(), lambda: 0, None
    )


def user_by(authentication: Authentication, header: str, peer: bytes | None) -> UserInfo | None:
    raw = [(b"authorization", header.encode())] if header else []
    scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": raw}
    unused: Any = None
    request = HttpRequest(Exchange({**scope, "extensions": {PEER: peer}}), 0, unused, unused)
    try:
        waits: Awaitable[None] | None = authentication(request)
    except Refused:
        return None
    assert waits is None
    return request.user


@given(st.lists(st.tuples(HEADERS, st.sampled_from([None, b"no certificate"])), max_size=12))
def test_user_of_a_remembered_token_is_that_of_a_new_judgement(
    shown: list[tuple[str, bytes | None]],
) -> None:
    remembering = stage()
    assert [user_by(remembering, *each) for each in shown] == [user_by(stage(), *each) for each in shown]


NAMES_SEEN = st.sampled_from(["", "default", "kube-system"])
ASKED = st.builds(
    Asked,
    st.builds(
        UserInfo,
        st.sampled_from(["admin", "system:kube-scheduler", "system:node:a", "bob", "system:anonymous"]),
        st.sampled_from([(), ("system:masters",), ("system:nodes", "system:authenticated")]),
    ),
    st.sampled_from(["get", "update", "watch"]),
    st.sampled_from(["", "coordination.k8s.io"]),
    st.sampled_from(["", "leases", "nodes/status", "pods"]),
    NAMES_SEEN,
    st.sampled_from(["", "/healthz", "/metrics"]),
)


@given(st.lists(ASKED, max_size=20))
def test_flow_that_is_remembered_is_that_of_a_new_classification(asked: list[Asked]) -> None:
    plan, anew = (Plan(N, schemas(N), levels(N), 600) for _ in range(2))
    assert [plan.flow(each) for each in asked] == [anew._flow(each) for each in asked]


ACCEPTS = st.lists(
    st.sampled_from(
        [
            "application/json",
            "application/yaml",
            N.media_protobuf,
            "*/*",
            "text/html",
            "application/json;q=0.1",
        ]
        + [
            f"application/json;as={kind};v=v1;g={N.group('meta')}"
            for kind in ("Table", "PartialObjectMetadata")
        ]
    ),
    max_size=3,
).map(",".join)
FLAGS = ("convertible", "tabular", "watching", "protobuf", "routed", "listed")


@given(ACCEPTS, st.booleans(), st.tuples(*[st.booleans()] * len(FLAGS)))
def test_form_that_is_remembered_is_that_of_a_new_negotiation(
    header: str, pretty: bool, flags: tuple[bool, ...]
) -> None:
    def outcome(choose: Any) -> Any:
        try:
            return choose(N, header, pretty, **dict(zip(FLAGS, flags, strict=True)))
        except negotiation.NotAcceptable as refused:
            return refused.body

    kept, anew = negotiation.form_of, negotiation.form_of.__wrapped__
    assert outcome(kept) == outcome(kept) == outcome(anew)
