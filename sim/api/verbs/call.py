"""One request in the verbs: its options, the services of the server that it uses, its refusals.

A `Request` becomes a `Call` with parsed options, and a refusal becomes a Status body.

Holds: a `Refusal` raised by a verb is the whole answer; nothing was written before it.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{create,update,delete,rest}.go,
         apimachinery pkg/api/errors/errors.go; etcd 3.5 (the size limit of a request).
Differs  the size of an object is the length of its JSON text without managedFields; upstream stores
         built-in kinds as protobuf, which is shorter. Objects that processes of the simulation
         write are never that large and are not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import Any, NoReturn, TypeVar

import msgspec

from sim.api.auth.account_tokens import TokenRules
from sim.api.auth.attributes import OpinionGiver
from sim.api.auth.authenticator import Authenticator
from sim.api.auth.chain import UserRules
from sim.api.auth.web_tokens import Sign, digest_token
from sim.api.kinds.core.component_status import Probed
from sim.api.objects import with_metadata
from sim.api.ownership.managed import Writer
from sim.api.refusals import Refusal, bad_request, internal
from sim.api.schema import field_validation as fieldvalidation
from sim.api.schema.json_text import go_quote, parse
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.status import error_group, invalid
from sim.api.store import Answer, Get, Item, Op, Pause, Unavailable
from sim.api.streams import StreamRequest
from sim.api.types import Json, Obj, Reply, Request, UserInfo
from sim.api.validation.errors import UNSUPPORTED, FieldError
from sim.dataclass import dataclass
from sim.ident import Names
from sim.options.features.gates import SERVER_SIDE_APPLY, is_on
from sim.units import SECOND, format_time, not_unsigned, parse_unsigned

STORED_MAX = 3 * 512 * 1024  # etcd, DefaultMaxRequestBytes
MANAGER_MAX = 128  # fieldmanager: a default manager name is cut to this length

TEXT = (bytes, bytearray)  # of a body that came from outside
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of the API machinery that a verb passes each object through.

    defaults: called with (resource, obj, subresource); fills in the fields that are absent
    admit: called with (call, obj, old); returns the object as mutating admission changes it, or
        raises
    valid: called with (call, obj, old); raises what validation finds
    check: called with (call, obj, old); runs validating admission
    charge: called with (call, obj, old); charges quotas, or returns None if there are none
    provide: called with (call); creates the namespace of a create, or returns None if nothing is to
        be created
    hooks: called with (call, obj or None, old, mutating); calls the admission webhooks of one kind,
        or returns None if there are none
    """

    defaults: Callable[[Resource, Obj, str], Obj]
    admit: Callable[[Call, Obj, Obj | None], Obj]
    valid: Callable[[Call, Obj, Obj | None], None]
    check: Callable[[Call, Obj | None, Obj | None], None]
    charge: Callable[[Call, Obj, Obj | None], Generator[Op, Answer, None] | None]
    provide: Callable[[Call], Generator[Op, Answer, None] | None]
    hooks: Callable[[Call, Obj | None, Obj | None, bool], Generator[Op, Answer, Obj | None] | None]


class Identities:
    """What the servers of a cluster share about identities.

    tokens: how tokens of service accounts are issued
    sign: makes a token of claims; a digest until the cluster is served with a key
    sign_for_controllers: the same for serviceaccount-token; None: with the same key
    authenticator: judges credentials; None while no client from outside is served
    """

    def __init__(self, tokens: TokenRules, sign: Sign = digest_token) -> None:
        self.tokens = tokens
        self.sign = sign
        self.sign_for_controllers: Sign | None = None
        self.authenticator: Authenticator | None = None

    def token(self, claims: Obj) -> str:
        """A token of claims, signed with the present key."""
        return self.sign(claims)

    def token_of_controllers(self, claims: Obj) -> str:
        """A token of claims, signed with the key of the controller managers."""
        return (self.sign_for_controllers or self.sign)(claims)


@dataclass(frozen=True, slots=True)
class Registry:
    """What all calls on one API server share.

    bits: draws that number of random bits
    wall_us: reads Unix time, in microseconds
    log: reads the log of a container by name from the agent at an address; its result is None if no
        agent listens
    collects: True if a garbage collector runs, so that a deletion may wait for it
    checks_fields: True if the server honours fieldValidation; otherwise it drops unknown fields
    gates: with another value than their default (`Kind.gated_fields`)
    authorizer: judges rights for admission, reviews and other checks within a verb; None allows
        everything
    identities: None for those of a cluster without options (see `issuing`)
    user_rules: lists what a user may do in a namespace
    probed: what components of the control plane do with probes, by name; None if all are healthy
    agent_listens: True if the agent of the node of that name accepts connections; None if all do
    stream: opens a stream to the agent of the node of that name, at an address
    dial: connects to the program that a request names; the other argument words a failure
    count: adds to the counter of a family, with its labels, for a reader of metrics
    observe: adds a value to the histogram of a family
    """

    scheme: Scheme
    rules: Rules
    bits: Callable[[int], int]
    wall_us: Callable[[], int]
    service_cidr: str = "10.0.0.0/24"
    log: Callable[[Call, Item, str, str], Reply | None] | None = None
    collects: bool = True
    checks_fields: bool = True
    node_ports: range = range(30000, 32768)
    gates: tuple[str, ...] = ()
    authorizer: OpinionGiver | None = None
    identities: Identities | None = None
    user_rules: Callable[[UserInfo, str], UserRules] | None = None
    probed: Probed | None = None
    agent_listens: Callable[[str], bool] | None = None
    stream: Callable[[str, StreamRequest, str], Reply] | None = None
    dial: Callable[[StreamRequest, Callable[[str], Reply]], Reply] | None = None
    count: Callable[[str, str, str], None] = lambda family, *labels: None
    observe: Callable[[str, float], None] = lambda family, value: None

    @property
    def names(self) -> Names:
        """The identifiers of this cluster."""
        return self.scheme.names

    @property
    def tracks(self) -> bool:
        """True if fields have owners, which they have not while server-side apply is off."""
        return is_on(self.gates, SERVER_SIDE_APPLY)

    @property
    def issuing(self) -> Identities:
        """How tokens of service accounts are issued."""
        return self.identities or Identities(TokenRules.of(self.names))

    @property
    def authenticator(self) -> Authenticator | None:
        """The authenticator of the server; None while no client from outside is served."""
        return None if self.identities is None else self.identities.authenticator


@dataclass(slots=True)
class Call:
    """One request with its resource and its parsed options.

    sent: of the body of a create or update
    operation_options: of a deletion, as webhooks see them
    collected: True if the object is deleted as one of a collection
    size: bytes of the object that a client outside writes, 0 before it is written
    large: True if the request may take long, so that it pauses between its parts
    """

    request: Request
    resource: Resource
    registry: Registry
    dry_run: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    subresource: str = ""
    sent: fieldvalidation.Sent | None = None
    operation_options: Obj | None = None
    collected: bool = False
    size: int = 0
    large: bool = False

    @property
    def key(self) -> str:
        """The storage key of the object that the request names."""
        return self.registry.scheme.key(self.resource, self.request.namespace, self.request.name)

    @property
    def field_validation(self) -> str:
        """How unknown and duplicate fields are handled: Ignore, Warn or Strict."""
        if not self.registry.checks_fields:
            return fieldvalidation.IGNORE
        return self.options.get("fieldValidation") or fieldvalidation.WARN

    @property
    def now_text(self) -> str:
        """The present time as an object's timestamp."""
        return format_time(self.registry.wall_us())

    def writer(self) -> Writer:
        """The field manager of this request."""
        manager = self.options.get("fieldManager") or self.request.manager[:MANAGER_MAX] or "unknown"
        return Writer(
            manager=manager,
            api_version=self.resource.api_version,
            time_s=self.registry.wall_us() // SECOND,
            subresource=self.subresource,
            tracks=self.registry.tracks,
        )

    @property
    def from_outside(self) -> bool:
        """True if the body came as text, so that no types have been checked."""
        return type(self.request.body) in TEXT

    @property
    def unchecked(self) -> bool:
        """True if the body may hold anything: it came as text, or from a user outside of the
        system.
        """
        return self.from_outside or not self.request.user.name.startswith("system:")

    def body(self) -> Json:
        """The body as a JSON value; raises ValueError if its text is not JSON."""
        body = self.request.body
        return parse(bytes(body).decode("utf-8", "replace")) if self.from_outside and body else body or None

    # --- refusals ---------------------------------------------------------------------------------

    def details(self, name: str = "", kind: str = "", **more: Json) -> Obj:
        """The details of a Status about an object of this resource."""
        out: Obj = {"name": name} if name else {}
        if self.resource.group:
            out["group"] = self.resource.group
        out["kind"] = kind or self.resource.plural
        return {**out, **more}

    def _named(self, name: str) -> str:
        return f"{self.resource.group_resource} {go_quote(name)}"

    def not_found(self, name: str = "") -> Refusal:
        """The refusal of a request for an object that does not exist."""
        name = name or self.request.name
        return Refusal(404, "NotFound", f"{self._named(name)} not found", self.details(name))

    def already_exists(self, name: str, existing: Item | None, generated: bool = False) -> Refusal:
        """The refusal of a create.

        generated: True if the object has a generateName (create.go, CheckGeneratedNameError)
        """
        text = f"{self._named(name)} already exists"
        if generated:
            text += ", the server was not able to generate a unique name for the object"
        if existing is not None and existing.obj["metadata"].get("deletionTimestamp"):
            text = f"object is being deleted: {text}"
        more: dict[str, Any] = {"retryAfterSeconds": 1} if generated else {}
        return Refusal(409, "AlreadyExists", text, self.details(name, **more))

    def conflict(self, text: str) -> Refusal:
        """The refusal of a write that conflicts; its message names the resource."""
        message = f"Operation cannot be fulfilled on {self._named(self.request.name)}: {text}"
        return Refusal(409, "Conflict", message, self.details(self.request.name))

    def conflict_of_kind(self, text: str) -> Refusal:
        """The refusal of a write that conflicts; its message names the kind and group as that of an
        invalid object does.
        """
        kind, name, group = self.resource.kind, self.request.name, error_group(self.resource)
        shown = f"{kind}.{group}" if group else kind
        message = f"Operation cannot be fulfilled on {shown} {go_quote(name)}: {text}"
        details = {"name": name, **({"group": group} if group else {}), "kind": kind}
        return Refusal(409, "Conflict", message, details)

    def modified(self) -> Refusal:
        """The refusal of a write that names an old revision."""
        return self.conflict(
            "the object has been modified; please apply your changes to the latest version and try again"
        )

    def forbidden(self, name: str, text: str) -> Refusal:
        """The refusal of a request about an object that admission forbids."""
        return Refusal(403, "Forbidden", f"{self._named(name)} is forbidden: {text}", self.details(name))

    def invalid(self, name: str, causes: list[tuple[str, str, str]]) -> Refusal:
        """The refusal of an invalid object.

        causes: triples (reason, field, message)
        """
        texts = list(dict.fromkeys(f"{where}: {text}" for _, where, text in causes))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        kind = f"{self.resource.kind}.{self.resource.group}" if self.resource.group else self.resource.kind
        details = self.details(
            name,
            self.resource.kind,
            causes=[{"reason": reason, "message": text, "field": where} for reason, where, text in causes],
        )
        return Refusal(422, "Invalid", f"{kind} {go_quote(name)} is invalid: {text}", details)


def bad_dry_run(names: Names, request: Request) -> Refusal:
    """The refusal of a dryRun value other than All."""
    kinds = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
    given = f'[]string{{"{request.options["dryRun"]}"}}'
    cause = FieldError("dryRun", UNSUPPORTED, 'supported values: "All"', given)
    return Refusal.of(invalid(names.group("meta"), kinds.get(request.verb, "DeleteOptions"), "", [cause]))


def admitted(call: Call, obj: Obj) -> Generator[Op, Answer, Obj]:
    """The object of a create after mutating admission."""
    provided = call.registry.rules.provide(call)
    if provided is not None:
        yield from provided
    return (yield from mutated(call, call.registry.rules.admit(call, obj, None), None))


def mutated(call: Call, obj: Obj, old: Obj | None) -> Generator[Op, Answer, Obj]:
    """The object of a create or an update after mutating webhooks."""
    run = call.registry.rules.hooks(call, obj, old, True)
    if run is None:
        return obj
    changed = yield from run
    assert changed is not None
    return changed


def approved_by_hooks(call: Call, obj: Obj | None, old: Obj | None) -> Generator[Op, Answer, None]:
    """Asks the validating webhooks about an object that is to be stored, or deleted (None)."""
    run = call.registry.rules.hooks(call, obj, old, False)
    if run is not None:
        yield from run


def connected(call: Call, opts: Obj) -> Generator[Op, Answer, None]:
    """Asks the webhooks about a connection with these options."""
    for mutating in (True, False):
        run = call.registry.rules.hooks(call, opts, None, mutating)
        if run is not None:
            yield from run


REST = Pause(0)  # takes no time


def rest(call: Call) -> Generator[Op, Answer, None]:
    """Let other requests proceed between two parts of a request that may take long."""
    if call.large:
        yield REST


def check_size(call: Call, obj: Obj) -> None:
    """Raises if an object is larger than the storage accepts."""
    if not call.from_outside:
        return
    call.size = len(msgspec.json.encode(obj))
    if call.size > STORED_MAX:
        raise internal("etcdserver: request is too large")


def unavailable(answer: Unavailable) -> NoReturn:
    """Raises the refusal of a request when the store gives no answer."""
    raise internal(answer.message)


def written(answer: Answer) -> Item | None:
    """The item of a write; None if another writer was first."""
    if isinstance(answer, Unavailable):
        unavailable(answer)
    return answer if isinstance(answer, Item) else None


def found(answer: Answer) -> Item | None:
    """The item of a get; None if there is none."""
    if isinstance(answer, Unavailable):
        unavailable(answer)
    assert answer is None or isinstance(answer, Item)
    return answer


def read_patch(call: Call, read: Callable[[], T]) -> Generator[Op, Answer, T]:
    """What `read` makes of a body.  If it refuses a patch, the object is looked for first, since
    upstream reads a patch once it has the object (registry/store.go: Update).
    """
    try:
        return read()
    except Refusal:
        if call.request.verb == "patch" and found((yield Get(call.key))) is None:
            raise call.not_found() from None
        raise


def is_true(options: Mapping[str, str], name: str) -> bool:
    """True for every value of a boolean option except "", 0 and false."""
    return options.get(name, "false").lower() not in ("", "0", "false")


def parse_revision(text: str) -> int:
    """The resourceVersion of a write or a cached read; for other texts, raises upstream's 500."""
    if not text:
        return 0
    revision = parse_unsigned(text)
    if revision is None:
        raise internal(not_unsigned(text))
    return revision


def check_name(obj: Obj, call: Call) -> None:
    """Raises if the names in the object of a PUT or PATCH differ from those in the URL."""
    request, metadata = call.request, obj.get("metadata") or {}
    if call.resource.namespaced:
        check_namespace(metadata, request)
    name = metadata.get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )


def check_namespace(metadata: Obj, request: Request) -> None:
    """Raises if an object names another namespace than the request; an absent one is accepted.

    Quirk: no object fails for a request without a namespace (rest/meta.go,
    EnsureObjectNamespaceMatchesRequestNamespace).
    """
    if request.namespace and metadata.get("namespace") not in (None, "", request.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


_OF_SYSTEM = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


_REPEATED = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def once_owned(call: Call, obj: Obj, again: bool = False) -> Obj:
    """The object without repeated owner references; the reply warns about them (rest.go).

    again: True if the object has already passed admission
    """
    owners = (obj.get("metadata") or {}).get("ownerReferences")
    if not owners or len(owners) == 1:
        return obj
    kept: dict[frozenset[tuple[str, Json]], Obj] = {}
    repeated: list[str] = []
    for owner in owners:
        key = frozenset(owner.items())
        if key in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept[key] = owner
    if not repeated:
        return obj
    when = " after mutating admission happens" if again else ""
    text = _REPEATED.format(when, ", ".join(repeated))
    if text not in call.warnings:
        call.warnings.append(text)
    return with_metadata(obj, ownerReferences=list(kept.values()))


def received_metadata(call: Call, obj: Obj) -> Obj:
    """The metadata of the object in a POST that is not stored: without the fields that only the
    server may set, in the namespace of the request.

    Mirrors apiserver pkg/registry/rest/meta.go: WipeObjectMetaSystemFields and
    EnsureObjectNamespaceMatchesRequestNamespace, which drops the namespace of what has none.
    """
    given = any_of(once_owned(call, obj).get("metadata"))
    metadata = {key: value for key, value in given.items() if key not in _OF_SYSTEM}
    if not call.resource.namespaced:
        metadata.pop("namespace", None)
        return metadata
    check_namespace(metadata, call.request)
    return {**metadata, "namespace": call.request.namespace}


def any_of(value: Any) -> Obj:
    """The value if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, dict) else {}
