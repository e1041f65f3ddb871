"""The control API of a served cluster: paths under `/orrery/v1/` to calls of `Control`.

Turns a request that has passed authentication and authorization into a call, and its result into
JSON; `ROUTES` is the one table of what there is, from which the OpenAPI document is made as well.

Holds: a wrong body, path or value is a Status (400, 404, 405, 413, 422) and has no effect; a
request of another site (Origin) is 403, since a browser may add a client certificate by itself.
Users may do what RBAC allows them of these non-resource URLs (`sim.app.control.roles`).

How it fails visibly: a fuzz of the routes meets an error 500, or a viewer steers.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from sim.api import status
from sim.api.types import Obj
from sim.app.control.changes import Changes
from sim.app.control.rows import ROWS
from sim.app.control.session import Control, duration_of
from sim.app.page import Page
from sim.app.steering import PREFIX
from sim.errors import ConflictError, InputError, suggestion
from sim.kernel import NEVER_US, SoFar
from sim.scenario.actions import KINDS
from sim.units import Virtual
from sim.version import __version__
from sim.wire.exchange import Response
from sim.wire.http.chain.request import HttpRequest, Outcome
from sim.wire.http.upgraded import STREAMED
from sim.wire.turns import Turns

JSON, YAML, STREAM = "application/json", "application/yaml", "text/event-stream"
MESSAGE_MAX = 4000  # letters of a refusal: it may repeat what was sent
PRINTABLE = r"^[^\x00-\x1f\x7f]*(?![\x00-\x1f\x7f])$"  # without control characters, also at the end
READING = ("GET", "HEAD", "OPTIONS")
Keep = Callable[[str], Awaitable[dict[str, Any]]]
NO_STORE = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]


class Pace(msgspec.Struct, forbid_unknown_fields=True):
    """pace: virtual seconds for each real second, or "max"."""

    pace: float | Literal["max"]


class Units(msgspec.Struct, forbid_unknown_fields=True):
    """events: how many are done before time rests."""

    events: int = 1


class Run(msgspec.Struct, forbid_unknown_fields=True, rename={"for_": "for"}):
    """One of: for, a duration; until, an instant of virtual time; condition, in words or an event.

    limit: how long a condition is waited for, at most, in virtual time
    fast: as fast as possible, at any pace
    """

    for_: str = ""
    until: str = ""
    condition: str | dict[str, Any] = ""
    limit: str = "1h"
    fast: bool = False


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """name: of the client that holds time, of the clock, of the mark, or of the snapshot."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=PRINTABLE)]


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    """clock: its ident; turn: the number of the turn that has ended.

    next_us: the virtual instant up to which its program has nothing to do; null: until it is given
        something
    sent: requests with the header of the clock so far; lost: numbers of those without an answer
    """

    clock: str
    turn: int
    next_us: Annotated[int, msgspec.Meta(ge=0, le=NEVER_US)] | None = None
    sent: int = 0
    lost: list[int] = []


class Asked(NamedTuple):
    """A request: its user, the names in its path, its query and its body."""

    user: str
    name: str
    query: Mapping[str, str]
    body: Any


class Stream(NamedTuple):
    """An answer without an end."""

    messages: AsyncGenerator[bytes, None]


class Text(NamedTuple):
    """An answer that is a file."""

    body: bytes | AsyncGenerator[bytes, None]
    media: str
    name: str


class Route(NamedTuple):
    """One path and method.

    path: below PREFIX; a last part "{name}" stands for any text
    call: its docstring describes it in the OpenAPI document
    body: the type of its body; dict for an entry of the scenario language, None for none
    """

    method: str
    path: str
    call: Callable[[Any, Asked], Any]
    body: type | None = None
    query: tuple[tuple[str, str], ...] = ()


class Clocks:
    """The calls of programs that follow the time of a server.  Raises InputError.

    state: pace and pauses of time
    """

    def __init__(self, turns: Turns, state: Callable[[], Obj]) -> None:
        self.turns, self._state = turns, state

    def attach_clock(self, asked: Asked) -> Stream:
        """Attach a clock until the connection ends: its turns and changes of time."""
        return Stream(self.turns.messages(asked.body.name, self._state))

    def end_turn(self, asked: Asked) -> Obj:
        """End the turn of a clock, or announce another instant."""
        entry: Turn = asked.body
        self.turns.end_turn(entry.clock, entry.turn, entry.sent, entry.next_us, entry.lost)
        return {}

    def note_other(self, method: str) -> None:
        """A request of another API has come."""


class Api(Clocks):
    """The calls.  Raises InputError.

    stories: finds the causes of an object's state: (target, namespace, what) to title and lines
    trace: the trace so far
    scenario: what was done, as the text of a scenario
    keep: makes a snapshot with a name; None for a server that keeps no state
    """

    def __init__(
        self,
        control: Control,
        changes: Changes,
        stories: Callable[[str, str, str], Awaitable[Obj]],
        trace: Callable[[], SoFar],
        scenario: Callable[[str], str],
        keep: Keep | None,
    ) -> None:
        super().__init__(
            control.cluster.clients.turns, lambda: {"pace": control.pace, "paused": control.paused}
        )
        control.on_change.append(self.turns.changed)
        self.control, self.changes = control, changes
        self.stories, self.trace, self.scenario, self.keep = stories, trace, scenario, keep

    def index(self, _: Asked) -> Obj:
        """The paths of this API."""
        return {"version": __version__, "paths": sorted({PREFIX + route.path for route in ROUTES})}

    def openapi(self, _: Asked) -> Obj:
        """This document."""
        return document()

    def state(self, _: Asked) -> Obj:
        """Time, pace, seed, faults, expectations and figures."""
        return self.control.state()

    def kinds(self, _: Asked) -> Obj:
        """The kinds of steps, with the schemas of their parameters."""
        return {"steps": dict(_kinds())}

    async def pause(self, _: Asked) -> Obj:
        """Let virtual time rest."""
        await self.control.pause()
        return self.control.clock()

    def resume(self, _: Asked) -> Obj:
        """Let virtual time go on."""
        self.control.resume()
        return self.control.clock()

    def pace(self, asked: Asked) -> Obj:
        """Set the pace of virtual time."""
        self.control.set_pace(math.inf if asked.body.pace == "max" else asked.body.pace)
        return self.control.clock()

    async def step_time(self, asked: Asked) -> Obj:
        """Do some events, then rest."""
        await self.control.step(asked.body.events)
        return self.control.clock()

    async def run(self, asked: Asked) -> Obj:
        """Run for a time, to an instant, or until a condition holds."""
        target: Run = asked.body
        if sum(map(bool, (target.for_, target.until, target.condition))) != 1:
            raise InputError("exactly one of for, until and condition is given")
        control = self.control
        if target.for_:
            reached = await control.run_for(duration_of(target.for_, "for"), fast=target.fast)
        elif target.until:
            reached = await control.run_to(Virtual(duration_of(target.until, "until")), fast=target.fast)
        else:
            limit_us = duration_of(target.limit, "limit")
            reached = await control.run_until(target.condition, limit_us, fast=target.fast)
        return {"reached": reached, **control.clock()}

    def hold(self, asked: Asked) -> Obj:
        """Let virtual time rest for a client."""
        self.control.hold(asked.body.name)
        return self.control.clock()

    def release(self, asked: Asked) -> Obj:
        """End what a client holds."""
        self.control.release(asked.body.name)
        return self.control.clock()

    def note_other(self, method: str) -> None:
        """Count what may have changed the cluster."""
        self.control.others += method not in READING

    async def perform(self, asked: Asked) -> Obj:
        """Do a step: a fault or an action of scenarios."""
        return {"name": await self.control.perform(asked.user, asked.body)}

    def steps(self, _: Asked) -> Obj:
        """What users have done."""
        return {"items": [{**one._asdict(), "virtual_us": one.at_us} for one in self.control.done]}

    def faults(self, _: Asked) -> Obj:
        """The steps with an effect that lasts."""
        return {"items": self.control.faults()}

    async def heal(self, asked: Asked) -> Obj:
        """End the effect of a step."""
        return {"name": await self.control.perform(asked.user, {"heal": {"step": asked.name}})}

    async def mark(self, asked: Asked) -> Obj:
        """Give the present instant a name."""
        return {"name": await self.control.perform(asked.user, {"name": asked.body.name, "mark": {}})}

    def expectations(self, _: Asked) -> Obj:
        """What the expectations have come to."""
        return {"items": list(self.control.judgements())}

    async def expect(self, asked: Asked) -> Obj:
        """Judge an expectation from now on."""
        return {"name": await self.control.expect(asked.user, asked.body)}

    async def why(self, asked: Asked) -> Obj:
        """The chain of causes of an object."""
        query = asked.query
        if not query.get("target"):
            raise InputError("nothing is asked for", "target", "such as target=pod/web-*")
        return await self.stories(query["target"], query.get("namespace", "default"), query.get("what", ""))

    def history(self, asked: Asked) -> Obj:
        """The rows of changes of a time."""
        begin, end = (duration_of(asked.query.get(key, entry), key) for key, entry in _WHOLE)
        kinds = asked.query.get("kinds", ",".join(ROWS)).split(",")
        for kind in kinds:
            if kind not in ROWS:
                raise InputError(f"there are no rows of {kind!r}", "kinds", suggestion(kind, ROWS))
        return {"columns": ROWS, "rows": list(self.changes.history(begin, end, kinds))}

    def follow(self, _: Asked) -> Stream:
        """The changes as they come: server-sent events, or WebSocket."""
        return Stream(self.changes.messages())

    def download(self, _: Asked) -> Text:
        """The trace so far, as a file."""
        return Text(_parts(self.trace()), "application/octet-stream", "orrery.trace")

    async def snapshot(self, asked: Asked) -> Obj:
        """Keep the present state of a server with a data directory under a name."""
        if self.keep is None:
            raise ConflictError("this server keeps no state", "", "orrery serve --data-dir DIR")
        return await self.keep(asked.body.name)

    def saved(self, asked: Asked) -> Text:
        """What was done, as a scenario file."""
        return Text(self.scenario(asked.query.get("name", "")).encode(), YAML, "scenario.yaml")


_WHOLE = (("from", "0s"), ("to", "876000h"))
_TIMES = (
    ("from", "an instant of virtual time, such as 5m"),
    ("to", "an instant of virtual time"),
    ("kinds", "of rows, such as node,pod"),
)
_WHY = (
    ("target", "an object, such as pod/web-* or node/node-1"),
    ("namespace", "of the object"),
    ("what", "which of its changes, such as phase=Failed"),
)
ROUTES = (
    Route("GET", "", Api.index),
    Route("GET", "/openapi", Api.openapi),
    Route("GET", "/state", Api.state),
    Route("POST", "/time/pause", Api.pause),
    Route("POST", "/time/resume", Api.resume),
    Route("PUT", "/time/pace", Api.pace, Pace),
    Route("POST", "/time/step", Api.step_time, Units),
    Route("POST", "/time/run", Api.run, Run),
    Route("POST", "/time/hold", Api.hold, Named),
    Route("POST", "/time/release", Api.release, Named),
    Route("POST", "/time/clock", Api.attach_clock, Named),
    Route("POST", "/time/turn", Api.end_turn, Turn),
    Route("GET", "/kinds", Api.kinds),
    Route("GET", "/steps", Api.steps),
    Route("POST", "/steps", Api.perform, dict),
    Route("GET", "/faults", Api.faults),
    Route("DELETE", "/faults/{name}", Api.heal),
    Route("POST", "/marks", Api.mark, Named),
    Route("GET", "/expectations", Api.expectations),
    Route("POST", "/expectations", Api.expect, dict),
    Route("GET", "/why", Api.why, query=_WHY),
    Route("GET", "/history", Api.history, query=_TIMES),
    Route("GET", "/changes", Api.follow),
    Route("GET", "/trace", Api.download),
    Route("POST", "/snapshots", Api.snapshot, Named),
    Route("GET", "/scenario", Api.saved, query=(("name", "of it"),)),
)
TIME_ROUTES = tuple(route for route in ROUTES if route.path in ("/time/clock", "/time/turn"))


class Stage:
    """The stage of the chain of requests that answers some routes of this API.

    api: the calls
    page: the stage of the page that uses it
    """

    page: Page | None = None

    def __init__(self, api: Clocks, routes: Sequence[Route]) -> None:
        self.api = api
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._by_path.setdefault(route.path, {})[route.method] = route

    def __call__(self, request: HttpRequest) -> Outcome:
        """The answer to a request of this API; nothing for others."""
        path = request.path
        if path != PREFIX and not path.startswith(f"{PREFIX}/"):
            self.api.note_other(request.exchange.method)
            return None
        return self._answered(request, path.removeprefix(PREFIX))

    async def _answered(self, request: HttpRequest, path: str) -> Response:
        exchange = request.exchange
        if not _of_this_site(request):
            return _refused(403, "Forbidden", "requests of other sites are refused")
        route, name = self._found(path.rstrip("/"), exchange.method)
        if isinstance(route, str):
            entry = route or "no path"
            code = HTTPStatus.METHOD_NOT_ALLOWED if route else HTTPStatus.NOT_FOUND
            reason = "MethodNotAllowed" if route else "NotFound"
            text = f"{exchange.method} is none of {entry}" if route else f"there is no {PREFIX}{path}"
            return _refused(code, reason, text)
        try:
            body = await _body(request, route)
            query = dict(parse_qsl(exchange.query, keep_blank_values=True))
            result = route.call(self.api, Asked(request.user.name, name, query, body))
            if isinstance(result, Awaitable):
                result = await result
        except ConflictError as error:
            return _refused(409, "Conflict", str(error))
        except InputError as error:
            return _refused(422, "Invalid", str(error))
        except _TooLargeError:
            return _refused(413, "RequestEntityTooLarge", "the body is too large")
        except msgspec.MsgspecError as error:
            return _refused(400, "BadRequest", f"the body is wrong: {error}")
        if isinstance(result, Stream):
            return _stream(request, result)
        if isinstance(result, Text):
            named = [("Content-Disposition", f'attachment; filename="{result.name}"')]
            return Response(200, result.body, [("Content-Type", result.media), *named, *NO_STORE])
        return Response(200, msgspec.json.encode(result), [("Content-Type", JSON), *NO_STORE], 1 << 14)

    def _found(self, path: str, method: str) -> tuple[Route | str, str]:
        """The route of a path and the name in it, or the methods that the path has ("" for none)."""
        methods, name = self._by_path.get(path), ""
        if methods is None:
            folder, _, name = path.rpartition("/")
            methods = self._by_path.get(f"{folder}/{{name}}", {})
        return methods.get(method) or ", ".join(methods), name


class Steering(Stage):
    """The stage that answers all of this API."""

    page: Page

    def __init__(self, api: Api) -> None:
        super().__init__(api, ROUTES)
        self.calls, self.page = api, Page()


class _TooLargeError(Exception):
    """A body is larger than the server takes."""


async def _body(request: HttpRequest, route: Route) -> Any:
    """The body of a request in the type that its route has."""
    if route.body is None:
        return None
    raw = await request.exchange.body.read()
    if raw is None:
        raise _TooLargeError
    target = dict[str, Any] if route.body is dict else route.body
    try:
        return msgspec.json.decode(raw or b"{}", type=target)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def _of_this_site(request: HttpRequest) -> bool:
    """False if a page of another site has sent the request."""
    origin = request.header("origin")
    return not origin or urlsplit(origin).netloc == request.header("host")


def _refused(code: int, reason: str, message: str) -> Response:
    body = msgspec.json.encode(status.status(code, reason, message[:MESSAGE_MAX]))
    return Response(code, body, [("Content-Type", JSON), *NO_STORE])


def _stream(request: HttpRequest, stream: Stream) -> Response:
    """The messages as those of a WebSocket, or as server-sent events."""
    streamed = request.exchange.extensions.get(STREAMED)
    if streamed is not None:
        streamed.append(JSON)
        return Response(200, stream.messages, [("Content-Type", JSON)])
    return Response(200, _as_events(stream.messages), [("Content-Type", STREAM), *NO_STORE])


async def _parts(records: SoFar) -> AsyncGenerator[bytes, None]:
    for part in records.parts():
        yield part


async def _as_events(messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for message in messages:
            yield b"data: %b\n\n" % message
    finally:
        await messages.aclose()


def _kinds() -> Iterator[tuple[str, Obj]]:
    """The kinds of steps with the schemas of their parameters."""
    for kind in KINDS.values():
        yield (
            kind.name,
            {
                "summary": " ".join(kind.documentation.split()),
                "parameters": msgspec.json.schema(kind.parameters),
            },
        )


def document() -> Obj:
    """The OpenAPI document of this API."""
    paths: dict[str, Obj] = {}
    for route in ROUTES:
        named = [("name", "path", "the name of the step")] if route.path.endswith("{name}") else []
        entry = [*named, *((name, "query", text) for name, text in route.query)]
        operation: Obj = {
            "summary": route.call.__doc__,
            "operationId": route.call.__name__,
            "parameters": [
                {"name": name, "in": where, "required": where == "path", "description": text,
                 "schema": {"type": "string"}}
                for name, where, text in entry
            ],
            "responses": {"200": {"description": "done"}, "default": {"description": "a Status"}},
        }  # fmt: skip
        if route.body is not None:
            (schema,), parts = msgspec.json.schema_components([route.body])
            if "$ref" in schema:
                schema = parts[schema["$ref"].rpartition("/")[2]]
            operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = operation
    about = {"title": "Orrery control API", "version": __version__}
    return {"openapi": "3.0.3", "info": about, "paths": paths}
