"""Whether a replica has admission webhooks to call, and the calls that its requests wait for.

Turns changes of the webhook configurations into `present`, which keeps requests off the fast paths,
and a `Consult` of a verb into calls, and their answers into one `Consulted`.

Holds: while no configuration is stored, no request waits here.

Mirrors  kubernetes v1.25 apiserver pkg/admission/configuration/*_webhook_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from actors.apiserver.metering import count_webhook
from actors.apiserver.ports import LocalStore, Server
from sim.api.admission.webhooks.hooks import PLURALS
from sim.api.crd.urls import of_client
from sim.api.dialing import refusal_at
from sim.api.schema.json_text import go_quote
from sim.api.store import Consult, Consulted, Page, Question, Range
from sim.api.types import Json
from sim.api.webhooks.unanswered import Unanswered
from sim.kernel import Context
from sim.units import SECOND

Arrived = Callable[[Json, str], None]
# Calls a program outside of the server: the answer, or the text of the failure, arrives later or at
# once.
Ask = Callable[[Question, Arrived], None]


def _items(store: LocalStore, prefix: str) -> bool:
    page = store.range(Range(prefix))
    assert isinstance(page, Page)
    return bool(page.items)


def post_of(question: Question) -> str:
    """The beginning of the text of a failed call, as Go's HTTP client words it."""
    return f"Post {go_quote(timed_url(question))}"


def timed_url(question: Question) -> str:
    """The URL of a call, with the time that its client waits."""
    return f"{url_of(question)}?timeout={question.timeout_us // SECOND}s"


def url_of(question: Question) -> str:
    """The URL of a call, without the query."""
    if question.service is None:
        return of_client(question.url)
    namespace, name, path, port = question.service
    return of_client(f"https://{name}.{namespace}.svc:{port}", path)


def not_dialled(question: Question) -> str:
    """The failure of a call to a URL where nothing listens."""
    return f"{post_of(question)}: {refusal_at(url_of(question))}"


def unreachable(question: Question, arrived: Arrived) -> None:
    """The answer of a server that has no programs outside to call."""
    arrived(None, not_dialled(question))


class Webhooks:
    """The webhooks of one replica.

    ask: calls a program outside
    present: True while a configuration is stored and the replica runs
    """

    def __init__(self, server: Server, ask: Ask) -> None:
        self.ask = ask
        self.present = False
        self._server = server
        self._prefixes = [server.scheme.prefix(plural) for plural in PLURALS]
        self._ctx: Context | None = None

    def begin(self, ctx: Context, store: LocalStore) -> None:
        """Follow the stored configurations during one incarnation."""
        self._ctx = ctx

        def look(_: object = None) -> None:
            present = any(_items(store, prefix) for prefix in self._prefixes)
            if present is not self.present:
                self.present = present
                self._server.rebound()

        def end() -> None:
            self._ctx, self.present = None, False

        look()
        for prefix in self._prefixes:
            ctx.on_stop(store.subscribe(prefix, look))
        ctx.on_stop(end)

    def ask_first(self, missing: Unanswered, then: Callable[[], None]) -> None:
        """Get the answer that a decision needs, and then call a function."""
        ctx = self._ctx
        assert ctx is not None

        def take(answered: tuple[Json, str]) -> None:
            missing.take(*answered, ctx.wall_us())
            then()

        self.ask(missing.question, lambda *answered: ctx.run(take, answered))

    def consult(self, op: Consult, done: Callable[[Consulted], None]) -> None:
        """Call all programs at once, and pass on the answers when the last has come."""
        ctx = self._ctx
        assert ctx is not None
        answers: list[tuple[int, Json, str]] = []

        began_us = ctx.kernel.now_us

        def arrived(index: int, answer: Json, failure: str) -> None:
            meters = ctx.kernel.meters
            if meters is not None:
                took_us = ctx.kernel.now_us - began_us
                count_webhook(meters, op.questions[index], answer, failure, took_us)
            answers.append((index, answer, failure))
            if len(answers) == len(op.questions):
                ctx.run(done, Consulted(tuple(answers)))

        for index, question in enumerate(op.questions):
            self.ask(question, partial(arrived, index))
