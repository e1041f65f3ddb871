"""Bodies as objects of the kind that a request expects: their version, kind and problems.

A text or a decoded value becomes an object of a resource's kind, or `DecodeError` in upstream's
words.

Clients create many objects that differ in their metadata alone.  What else such a body holds is
remembered by its text, so that it is read once, and is one object, by which defaults, validation
and ownership know their results.

Holds: a body of another version or kind is first read as what it says that it is; a remembered
result is that of reading the whole body, which has no problems then.

Mirrors  kubernetes v1.25 apimachinery pkg/runtime/serializer/{json,versioning}; apiserver
         pkg/endpoints/handlers/{create,rest}.go.
"""

from __future__ import annotations

import msgspec

from sim import remembered
from sim.api.schema.field_schemas import SchemaNode, definition_name, schema_of
from sim.api.schema.field_validation import (
    IGNORE,
    STRICT,
    WARN,
    DecodeError,
    Sent,
    conform,
    conform_noting_sent,
    head_problem,
)
from sim.api.schema.json_text import parse_noting_twice, summarize, unread_head
from sim.api.schema.resource import Resource
from sim.api.types import Json, Obj
from sim.ident import NAMES

# Groups with kinds that exist, or existed, in another group under the same name.
_OTHER_GROUPS = ("apps", "extensions", *(names.group("events") for names in NAMES.values()))
# Versions that upstream can decode and does not serve, by kind (pkg/apis/*/install).
_UNSERVED = {
    "HorizontalPodAutoscaler": ("v2beta1",),
    **dict.fromkeys(
        (
            "CronJob",
            "EndpointSlice",
            "Ingress",
            "IngressClass",
            "Lease",
            "LocalSubjectAccessReview",
            "PodDisruptionBudget",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
            "TokenReview",
        ),
        ("v1beta1",),
    ),
    **dict.fromkeys(
        ("ClusterRole", "ClusterRoleBinding", "PriorityClass", "Role", "RoleBinding", "RuntimeClass"),
        ("v1alpha1", "v1beta1"),
    ),
}
# The name of pkg/runtime/scheme.go in its own errors.
_SCHEME = '"pkg/runtime/scheme.go:100"'


class Decoded:
    """A decoded body.

    obj: the object
    problems: messages about unknown and duplicate fields, in the order of the text
    sent: what Go remembers of the body, and the object does not show
    """

    __slots__ = ("obj", "problems", "sent")

    def __init__(self, obj: Obj, problems: list[str], sent: Sent) -> None:
        self.obj = obj
        self.problems = problems
        self.sent = sent


_sections = msgspec.json.Decoder(dict[str, msgspec.Raw])
SPLIT_MIN, SPLIT_MAX, REST_MAX = 256, 1 << 16, 1024  # bytes of such a body, and entries


# What bodies hold besides their metadata, by kind and text.
_RESTS: dict[tuple[str, str, bytes], tuple[SchemaNode, Obj, Sent]] = {}
remembered.register(_RESTS.clear)


def _by_sections(resource: Resource, body: bytes) -> tuple[Obj, Sent] | None:
    """A body without problems, of which all but the metadata may be remembered; None if the body
    has to be read as a whole.
    """
    try:
        sections = _sections.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    metadata = sections.get("metadata")
    # Without anything between its parts, or as Python's json writes it, no key comes twice.
    size = sum(len(name.encode()) + len(part) + 4 for name, part in sections.items()) + 1
    if metadata is None or len(body) not in (size, size + 2 * len(sections) - 1):
        return None
    parts = [b'"%b":%b' % (name.encode(), part) for name, part in sections.items() if name != "metadata"]
    key = resource.api_version, resource.kind, b"{%b}" % b",".join(parts)
    found = _RESTS.get(key)
    if found is None or found[0] is not resource.schema:
        made = _conformed(resource, key[2])
        if made is None:
            return None
        if len(_RESTS) >= REST_MAX:
            _RESTS.clear()
        found = _RESTS[key] = (resource.schema, *made)
    _, rest, sent = found
    own = _conformed(resource, b'{"metadata":%b}' % metadata)
    if own is None or any(own[1]) or "metadata" not in own[0]:
        return None
    whole = {**rest, "metadata": own[0]["metadata"]}
    return {**{name: whole[name] for name in sections if name in whole}, **whole}, sent


def _conformed(resource: Resource, text: bytes) -> tuple[Obj, Sent] | None:
    """A part of a body as an object; None if there is anything to say about it."""
    try:
        value = parse_noting_twice(text.decode(), exact=True)
    except ValueError:
        return None
    own = resource.api_version, resource.kind
    if head_problem(value) or (value.get("apiVersion") or own[0], value.get("kind") or own[1]) != own:
        return None
    obj, problems, sent = conform_noting_sent(resource.schema, value, resource.kind)
    return None if problems or isinstance(obj, DecodeError) else (obj, sent)


def decode(
    resource: Resource, body: bytes | str | Json, directive: str = WARN, repeated: str = ""
) -> Decoded:
    """The object in a POST or PUT; `Strict` refuses any problem, `Ignore` reports none.

    repeated: the decoder's error about keys that its YAML holds twice
    """
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    if isinstance(body, bytes) and SPLIT_MIN <= len(body) <= SPLIT_MAX and not repeated:
        known = _by_sections(resource, body)
        if known is not None:
            return Decoded({**typed, **known[0], **typed}, [], known[1])
    text = bytes(body).decode("utf-8", "replace") if isinstance(body, bytes | bytearray) else body
    value, shown = text, ""
    if isinstance(text, str):
        shown = text
        try:
            value = parse_noting_twice(text, exact=True)
        except ValueError as error:
            raise _unrecognized(resource, unread_head(str(error)), text) from None
    value = _typed(resource, value, shown, directive)
    obj, problems, sent = conform_noting_sent(resource.schema, value, resource.kind)
    cannot = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    if isinstance(obj, DecodeError):
        raise DecodeError(cannot + obj.message)
    if (repeated or problems) and directive == STRICT:
        listed = [repeated, *problems] if repeated else problems
        raise DecodeError(cannot + "strict decoding error: " + ", ".join(listed))
    obj = {**typed, **obj, **typed}
    problems = [] if directive == IGNORE else [*lines_of(repeated), *problems]
    return Decoded(obj, problems, sent)


def lines_of(repeated: str) -> list[str]:
    """The warnings of a decoder's error about keys that a YAML text holds twice, one for each
    line (rest.go: parseYAMLWarnings).
    """
    return [line.strip() for line in repeated.split("\n")[1:]]


def _unrecognized(resource: Resource, why: str, text: str) -> DecodeError:
    shown = summarize(text.encode("utf-8", "replace"))
    return DecodeError(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({shown})"
    )


def _typed(resource: Resource, value: Json, text: str, directive: str) -> Obj:
    """The body with its version and kind checked; absent ones default to the resource's.

    A body of another version or kind is first read as what it says that it is.
    """
    found: Obj = {} if value is None else value
    if problem := head_problem(found):
        raise _unrecognized(resource, problem, text)
    version, kind = found.get("apiVersion") or resource.api_version, found.get("kind") or resource.kind
    if version.startswith("/"):  # Quirk: the core group may be written as an empty name
        version = version.removeprefix("/")
    if version == resource.api_version and kind == resource.kind:
        return found
    if version.count("/") > 1:
        raise _unrecognized(resource, f"unexpected GroupVersion string: {version}", text)
    group, _, short = version.rpartition("/")
    cannot = f'{kind} in version "{short}" cannot be handled as a {resource.kind}: '
    registered = kind == "List" or definition_name(group, short, kind) != ""
    other = group in _OTHER_GROUPS and version != "apps/v1"
    other = other or (group == resource.group and short in _UNSERVED.get(kind, ()))
    # What cannot be converted is refused for that, with problems or without.
    noticed = directive if kind == resource.kind else IGNORE
    name = definition_name(group, short, kind)
    if not name and kind == resource.kind and other:  # nearly the same form, in another version
        name = resource.schema.name
    problems = _read_as(name, kind, found, cannot, noticed)
    if kind == resource.kind and (other or registered):
        raise DecodeError(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})",
            problems,
        )
    raise DecodeError(cannot + _foreign(resource, version, kind, registered))


def _read_as(name: str, kind: str, value: Obj, cannot: str, directive: str) -> list[str]:
    """The messages about a body of a kind that it is not meant to be.  Raises DecodeError for a
    value of a wrong type, and in `Strict` for a problem.

    name: of the kind's definition, "" if there is none
    """
    if not name:
        return []
    made, problems = conform(schema_of(name), value, kind)
    if isinstance(made, DecodeError):
        raise DecodeError(cannot + made.message)
    if problems and directive == STRICT:
        raise DecodeError(f"{cannot}strict decoding error: {', '.join(problems)}")
    return [] if directive == IGNORE else problems


def _foreign(resource: Resource, version: str, kind: str, registered: bool) -> str:
    if not registered:
        return f'no kind "{kind}" is registered for version "{version}" in scheme {_SCHEME}'
    target = f"{resource.package}.{resource.kind}"
    return f"converting ({version.rpartition('/')[2]}.{kind}) to ({target}): unknown conversion"


def other_kind(resource: Resource, value: Obj) -> str:
    """Why the text of an object cannot be read as the resource's kind, by its version and kind; ""
    if it can (apimachinery pkg/runtime/serializer/{json,versioning}).
    """
    if problem := head_problem(value):
        return problem
    version, kind = value.get("apiVersion") or resource.api_version, value.get("kind") or resource.kind
    version = version.removeprefix("/")
    if version == resource.api_version and kind == resource.kind:
        return ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    group, _, short = version.rpartition("/")
    name = definition_name(group, short, kind)
    if name:
        made, _ = conform(schema_of(name), value, kind)
        if isinstance(made, DecodeError):
            return made.message
    return _foreign(resource, version, kind, bool(name))
