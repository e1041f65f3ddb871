"""One request on its way through the verbs: what it asks, what the replica lends it, how it is refused.

Turns a `Request` into a `Call` with parsed options, and refusals into Status bodies.

Holds: a `Refusal` raised by a verb is the whole answer; nothing was written before it.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{create,update,delete,rest}.go, apimachinery
         pkg/api/errors/errors.go; etcd 3.5 (the longest request).
Differs  how long an object is, is told by its JSON text, without who owns its fields; of kinds of its own upstream stores
         protobuf, which is shorter.  Processes of the cluster write nothing so long, and are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from sim.api.kinds.common.errors import UNSUPPORTED, FieldError
from sim.api.ownership.managed import Writer
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.json_text import go_quote, parse
from sim.api.schema.resource import Resource
from sim.api.schema.scheme import Scheme
from sim.api.status import invalid
from sim.api.store import Answer, Item, Op, Unavailable
from sim.api.types import Json, Obj, Reply, Request
from sim.ident import Names
from sim.units import SECOND, format_time, not_unsigned, parse_unsigned

Steps = Generator[Op, Answer, Reply]
STORED_MAX = 3 * 512 * 1024  # etcd, DefaultMaxRequestBytes
MANAGER_MAX = 128  # fieldmanager: a default manager name is cut there


class Refusal(Exception):
    """The request is refused with this Status."""

    def __init__(self, code: int, reason: str, message: str, details: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": details} if details is not None else {}),
            "code": code,
        }

    @classmethod
    def of(cls, body: Obj) -> Refusal:
        """A refusal that is a Status already."""
        refusal = cls(body["code"], "", body.get("message", ""))
        refusal.body = body
        return refusal

    def reply(self, warnings: tuple[str, ...] = ()) -> Reply:
        details = self.body.get("details") or {}
        after = details.get("retryAfterSeconds", 0)
        headers = {"Retry-After": str(after)} if after else {}
        return Reply(self.code, body=self.body, headers=headers, warnings=warnings)


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of the API machinery that a verb runs an object through.

    defaults(resource, obj, subresource) fills in what was left out; admit(call, obj, old) answers the object as admission changes it, or raises; check(call, obj, old) is
    admission's last word; valid(call, obj, old) raises what validation finds; charge(call, obj, old) charges quotas, None:
    there are none.
    """

    defaults: Callable[[Resource, Obj, str], Obj]
    admit: Callable[[Call, Obj, Obj | None], Obj]
    valid: Callable[[Call, Obj, Obj | None], None]
    check: Callable[[Call, Obj | None, Obj | None], None]
    charge: Callable[[Call, Obj, Obj | None], Generator[Op, Answer, None] | None]


@dataclass(frozen=True, slots=True)
class Registry:
    """What all calls on one replica share.  `bits(n)` draws random bits, `wall_us()` reads Unix time.

    collects: somebody collects what depends on deleted objects, so that a deletion may wait for it.
    checks_fields: fieldValidation= is heard; else unknown fields are dropped without a word.
    gates: of features that are on though they are off by default (`Kind.gated_fields`).
    """

    scheme: Scheme
    rules: Rules
    bits: Callable[[int], int]
    wall_us: Callable[[], int]
    service_cidr: str = "10.0.0.0/24"
    log: Callable[[Call, Item, str], Reply] | None = None  # of the container named
    collects: bool = True
    checks_fields: bool = True
    node_ports: range = range(30000, 32768)
    gates: tuple[str, ...] = ()

    @property
    def names(self) -> Names:
        return self.scheme.names


@dataclass(slots=True)
class Call:
    """One request, its resource found and its options read."""

    request: Request
    resource: Resource
    registry: Registry
    dry_run: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    subresource: str = ""

    @property
    def key(self) -> str:
        return self.registry.scheme.key(self.resource, self.request.namespace, self.request.name)

    @property
    def field_validation(self) -> str:
        if not self.registry.checks_fields:
            return fieldvalidation.IGNORE
        return self.options.get("fieldValidation") or fieldvalidation.WARN

    @property
    def now_text(self) -> str:
        return format_time(self.registry.wall_us())

    def writer(self) -> Writer:
        manager = self.options.get("fieldManager") or self.request.manager[:MANAGER_MAX] or "unknown"
        return Writer(
            manager=manager,
            api_version=self.resource.api_version,
            time_s=self.registry.wall_us() // SECOND,
            subresource=self.subresource,
        )

    @property
    def from_outside(self) -> bool:
        """True if the body came as text, from a client whose types nobody has checked."""
        return isinstance(self.request.body, bytes | bytearray)

    @property
    def unchecked(self) -> bool:
        """True if the body may be anything: it came as text, or from a user who is no part of the system."""
        return self.from_outside or not self.request.user.name.startswith("system:")

    def body(self) -> Json:
        """The body as a JSON value; ValueError if the text is none."""
        body = self.request.body
        return parse(bytes(body).decode("utf-8", "replace")) if self.from_outside and body else body or None

    # --- refusals -----------------------------------------------------------------------------------------

    def details(self, name: str = "", kind: str = "", **more: Json) -> Obj:
        out: Obj = {"name": name} if name else {}
        if self.resource.group:
            out["group"] = self.resource.group
        out["kind"] = kind or self.resource.plural
        return {**out, **more}

    def _named(self, name: str) -> str:
        return f"{self.resource.group_resource} {go_quote(name)}"

    def not_found(self, name: str = "") -> Refusal:
        name = name or self.request.name
        return Refusal(404, "NotFound", f"{self._named(name)} not found", self.details(name))

    def already_exists(self, name: str, existing: Item | None, generated: bool = False) -> Refusal:
        """generated: the object asked for a generated name, if only in vain (create.go, CheckGeneratedNameError)."""
        text = f"{self._named(name)} already exists"
        if generated:
            text += ", the server was not able to generate a unique name for the object"
        if existing is not None and existing.obj["metadata"].get("deletionTimestamp"):
            text = f"object is being deleted: {text}"
        more: dict[str, Any] = {"retryAfterSeconds": 1} if generated else {}
        return Refusal(409, "AlreadyExists", text, self.details(name, **more))

    def conflict(self, text: str) -> Refusal:
        message = f"Operation cannot be fulfilled on {self._named(self.request.name)}: {text}"
        return Refusal(409, "Conflict", message, self.details(self.request.name))

    def conflict_of_kind(self, text: str) -> Refusal:
        """Names the kind, with its group."""
        resource, name = self.resource, self.request.name
        group = {"group": resource.group} if resource.group else {}
        shown = f"{resource.kind}.{resource.group}" if group else resource.kind
        message = f"Operation cannot be fulfilled on {shown} {go_quote(name)}: {text}"
        return Refusal(409, "Conflict", message, {"name": name, **group, "kind": resource.kind})

    def modified(self) -> Refusal:
        return self.conflict(
            "the object has been modified; please apply your changes to the latest version and try again"
        )

    def forbidden(self, name: str, text: str) -> Refusal:
        return Refusal(403, "Forbidden", f"{self._named(name)} is forbidden: {text}", self.details(name))

    def invalid(self, name: str, causes: list[tuple[str, str, str]]) -> Refusal:
        """causes: (reason, field, message)."""
        texts = list(dict.fromkeys(f"{where}: {text}" for _, where, text in causes))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        kind = f"{self.resource.kind}.{self.resource.group}" if self.resource.group else self.resource.kind
        details = self.details(
            name,
            self.resource.kind,
            causes=[{"reason": reason, "message": text, "field": where} for reason, where, text in causes],
        )
        return Refusal(422, "Invalid", f"{kind} {go_quote(name)} is invalid: {text}", details)


def bad_request(text: str) -> Refusal:
    return Refusal(400, "BadRequest", text)


def internal(text: str) -> Refusal:
    """500 of upstream without reason, where upstream answers client mistakes so."""
    return Refusal(500, "", text)


def bad_dry_run(names: Names, request: Request) -> Refusal:
    """422: a dryRun that is not All."""
    kinds = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
    given = f'[]string{{"{request.options["dryRun"]}"}}'
    cause = FieldError("dryRun", UNSUPPORTED, 'supported values: "All"', given)
    return Refusal.of(invalid(names.group("meta"), kinds.get(request.verb, "DeleteOptions"), "", [cause]))


def method_not_allowed() -> Refusal:
    text = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", text, {})


def no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def check_size(call: Call, obj: Obj) -> None:
    """The storage takes no request that is too long."""
    if call.from_outside and len(msgspec.json.encode(obj)) > STORED_MAX:
        raise internal("etcdserver: request is too large")


def unavailable(answer: Unavailable) -> NoReturn:
    """The store gave no answer."""
    raise internal(answer.message)


def written(answer: Answer) -> Item | None:
    """The item of a write, None if its expectation failed."""
    if isinstance(answer, Unavailable):
        unavailable(answer)
    return answer if isinstance(answer, Item) else None


def found(answer: Answer) -> Item | None:
    """The item of a get."""
    if isinstance(answer, Unavailable):
        unavailable(answer)
    assert answer is None or isinstance(answer, Item)
    return answer


def is_true(options: Mapping[str, str], name: str) -> bool:
    """Every value but "", 0 and false means true."""
    return options.get(name, "false").lower() not in ("", "0", "false")


def parse_revision(text: str) -> int:
    """A resourceVersion of a write or a cached read; garbage is upstream's 500."""
    if not text:
        return 0
    revision = parse_unsigned(text)
    if revision is None:
        raise internal(not_unsigned(text))
    return revision


def check_name(obj: Obj, call: Call) -> None:
    """The names in a PUT's or PATCH's object are those of the URL."""
    request, metadata = call.request, obj.get("metadata") or {}
    name = metadata.get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    check_namespace(metadata, request)


def check_namespace(metadata: Obj, request: Request) -> None:
    """Refuse an object of another namespace than the request's; one that says none is of that."""
    if metadata.get("namespace") not in (None, "", request.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def any_of(value: Any) -> Obj:
    """A body's mapping, {} where there is none."""
    return value if isinstance(value, dict) else {}
