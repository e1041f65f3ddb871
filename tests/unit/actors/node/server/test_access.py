"""Access to the server of an agent: credentials, reviews, and how long they count."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.server import access
from actors.node.server.access import Access, attributes_of
from actors.node.server.exchange import AgentRequest, AgentResponse
from sim.api.types import Obj, Reply, UserInfo
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.node.agent import parse_node_agent
from sim.units import MINUTE, SECOND

MASTER = UserInfo("server", ("system:masters",))


class Agent:
    """What access uses of an agent.

    answers: the status of a review by its kind, or the code of a failure
    reviews: kind and spec of those that were created
    """

    def __init__(self, answers: dict[str, Any], **options: object) -> None:
        self.options = parse_node_agent(
            {name.replace("_", "-"): value for name, value in options.items()}, names=NAMES["kubernetes"]
        )
        self.names, self.spec = NAMES["kubernetes"], SimpleNamespace(name="n1")
        self.api, self.ctx, self.now_us = self, self, 0
        self.answers, self.reviews = answers, list[tuple[str, Obj]]()
        self.waits: list[int] = []
        self.held: list[Callable[[], None]] = []
        self.holds = False

    def review(self, plural: str, group: str, body: Obj, on_reply: Callable[[Reply], None]) -> None:
        self.reviews.append((body["kind"], body["spec"]))
        answer = self.answers[body["kind"]]
        reply = Reply(answer) if isinstance(answer, int) else Reply(201, body={**body, "status": answer})
        if self.holds:
            self.held.append(lambda: on_reply(reply))
        else:
            on_reply(reply)

    def call_later_us(self, delay_us: int, fn: Callable[[Any], None]) -> None:
        self.waits.append(delay_us)
        fn(None)


def made(answers: dict[str, Any], **options: object) -> tuple[Any, Callable[..., tuple[int, str]]]:
    """An agent, and what checks a request: code and text, (0, "") if it may continue."""
    agent: Any = Agent(answers, **options)
    own = Access(agent)

    def check(path: str = "/pods", method: str = "GET", **fields: Any) -> tuple[int, str]:
        found: list[AgentResponse | None] = []
        own.check(AgentRequest(method, path, **fields), found.append)
        (refusal,) = found
        return (0, "") if refusal is None else (refusal.code, refusal.body.decode())

    return agent, check


def allowed(value: bool) -> dict[str, Any]:
    return {"SubjectAccessReview": {"allowed": value}}


def known(name: str) -> dict[str, Any]:
    return {"TokenReview": {"authenticated": True, "user": {"username": name, "groups": ["g"]}}}


def test_a_request_without_credentials_is_anonymous_or_refused() -> None:
    agent, check = made(allowed(True), authorization_mode="Webhook")
    assert check() == (0, "")
    spec = agent.reviews[0][1]
    assert (spec["user"], spec["groups"]) == ("system:anonymous", ["system:unauthenticated"])
    _, check = made({}, anonymous_auth=False, client_ca_file="/ca.crt")
    assert check() == (401, "Unauthorized")
    assert check(certificate=MASTER) == (0, "")


def test_a_certificate_counts_only_with_an_authority_of_clients() -> None:
    agent, check = made(allowed(True), authorization_mode="Webhook")
    check(certificate=MASTER)
    agent, check = made(allowed(True), authorization_mode="Webhook", client_ca_file="/ca.crt")
    check(certificate=MASTER)
    spec = agent.reviews[0][1]
    assert (spec["user"], spec["groups"]) == ("server", ["system:masters", "system:authenticated"])


@pytest.mark.parametrize("webhook", [True, False])
def test_a_token_is_reviewed_only_with_the_webhook(webhook: bool) -> None:
    agent, check = made(known("eve"), authentication_token_webhook=webhook)
    assert check(token="t") == (0, "")
    assert [kind for kind, _ in agent.reviews] == ["TokenReview"] * webhook


def test_a_token_that_is_not_known_is_401_also_where_anyone_may_be_anonymous() -> None:
    _, check = made({"TokenReview": {"authenticated": False}}, authentication_token_webhook=True)
    assert check(token="t") == (401, "Unauthorized")
    _, check = made({"TokenReview": 403}, authentication_token_webhook=True)
    assert check(token="t") == (401, "Unauthorized")


@pytest.mark.parametrize(("ttl", "at_s", "count"), [("2m", 119, 1), ("2m", 120, 2), ("10s", 11, 2)])
def test_reviews_of_tokens_count_for_their_time(ttl: str, at_s: int, count: int) -> None:
    options = {"authentication_token_webhook": True, "authentication_token_webhook_cache_ttl": ttl}
    agent, check = made(known("eve"), **options)
    check(token="t")
    agent.now_us = at_s * SECOND
    check(token="t")
    assert len(agent.reviews) == count


@pytest.mark.parametrize(
    ("allows", "option", "counts_us"),
    [
        (True, {}, 5 * MINUTE),
        (False, {}, 30 * SECOND),
        (True, {"authorization_webhook_cache_authorized_ttl": "7s"}, 7 * SECOND),
        (False, {"authorization_webhook_cache_unauthorized_ttl": "7s"}, 7 * SECOND),
    ],
)
def test_reviews_of_access_count_for_their_time(allows: bool, option: dict[str, Any], counts_us: int) -> None:
    agent, check = made(allowed(allows), authorization_mode="Webhook", **option)
    about = "(user=system:anonymous, verb=get, resource=nodes, subresource=proxy)"
    wanted = (0, "") if allows else (403, f"Forbidden {about}")
    assert check() == wanted
    agent.now_us = counts_us - 1
    assert check() == wanted
    assert len(agent.reviews) == 1
    agent.now_us = counts_us
    assert check() == wanted
    assert len(agent.reviews) == 2


def test_a_review_that_fails_is_repeated_and_then_an_error() -> None:
    agent, check = made({"SubjectAccessReview": 500}, authorization_mode="Webhook")
    about = "(user=system:anonymous, verb=create, resource=nodes, subresource=proxy)"
    assert check("/exec/a/b/c", "POST") == (500, f"Authorization error {about}")
    assert agent.waits == [500_000, 750_000, 1_125_000, 1_687_500]
    agent.answers = allowed(True)
    assert check("/exec/a/b/c", "POST") == (0, "")


@pytest.mark.parametrize(
    ("method", "path", "verb", "subresource"),
    [
        ("GET", "/metrics/cadvisor", "get", "metrics"),
        ("POST", "/stats/summary", "create", "stats"),
        ("GET", "/logs/", "get", "log"),
        ("PUT", "/debug/flags/v", "update", "proxy"),
        ("GET", "/metricsx", "get", "proxy"),
        ("OPTIONS", "/pods", "", "proxy"),
    ],
)
def test_paths_and_methods_have_their_rules(method: str, path: str, verb: str, subresource: str) -> None:
    found = attributes_of(AgentRequest(method, path), "n1")
    assert (found.verb, found.resource, found.name) == (verb, "nodes", "n1")
    assert (found.subresource, found.version) == (subresource, "v1")


def test_requests_that_wait_for_reviews_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WAITING_MAX", 2)
    agent: Any = Agent(allowed(True), authorization_mode="Webhook")
    agent.holds = True
    own, found = Access(agent), list[AgentResponse | None]()
    for number in range(3):
        own.check(AgentRequest("GET", "/pods", token=str(number)), found.append)
    (busy,) = found
    assert busy is not None
    assert busy.code == 429
    for answer in agent.held:
        answer()
    assert found[1:] == [None, None]
    agent.holds = False
    own.check(AgentRequest("GET", "/pods"), found.append)
    assert found[-1] is None


def test_remembered_reviews_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ANSWERS_MAX", 2)
    agent, check = made(known("eve"), authentication_token_webhook=True)
    for token in ("a", "b", "c"):
        check(token=token)
    check(token="c")
    assert len(agent.reviews) == 3
    check(token="a")
    assert len(agent.reviews) == 4


def test_a_standalone_agent_cannot_review() -> None:
    for given, which in (
        ({"authorization-mode": "Webhook"}, "authorization"),
        ({"authentication-token-webhook": "true"}, "authentication"),
    ):
        with pytest.raises(InputError, match=f"no client provided, cannot use webhook {which}"):
            parse_node_agent({"kubeconfig": "", **given}, names=NAMES["kubernetes"])
