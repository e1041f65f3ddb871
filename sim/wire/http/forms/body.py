"""Bodies of requests: the accepted media types, and their JSON text.

Raw bytes and a content type become the JSON text that a `Request` carries; the API machinery
decodes it.

Holds: an unreadable body is refused with upstream's Status, never with an exception of a parser.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{create,update,delete,patch}.go,
         negotiation.
Differs  a body of more than `NODES_MAX` values is 413: upstream accepts any number that fits in 3
         MiB, and then refuses to store an object of more than 1.5 MiB; duplicate YAML keys are
         reported for an apply only, and with fieldValidation=Strict before the apply is attempted.
"""

from __future__ import annotations

import re

import msgspec

from sim.api import status
from sim.api.go.media_types import parse_media_type
from sim.api.messages.protobuf import Default, MessageError, ProtobufError, ProtobufTooLarge, decode
from sim.api.patch.json_patches import OPERATIONS_MAX, too_many_operations
from sim.api.schema.deep_json import cut
from sim.api.schema.field_validation import head_problem
from sim.api.schema.json_text import summarize, unread_head
from sim.ident import Names
from sim.patterns import pattern
from sim.wire.http.forms.negotiation import produced
from sim.wire.http.forms.yaml_json import NODES_MAX, YamlError, YamlTooLarge, load_yaml
from sim.wire.http.refused import Refused
from sim.wire.http.routing import Target
from sim.wire.stack import ORDINARY, room

TOO_MANY = f"Request entity too large: limit is {NODES_MAX} values"


class BadBody(Refused):
    """The body is refused with this Status."""


# What separates and nests values; a string, also an unfinished one, is one match, so that a scan is
# linear.
_MARKS = pattern(rb'"(?:[^"\\]++|\\.)*+"?+|[\[\]{},]', re.DOTALL)


# Kinds with known fields of any depth; of others, what nests deep is in a field that is dropped.
_DEEP_KINDS = ("controllerrevisions", "customresourcedefinitions")


def _shaped(target: Target, raw: bytes, patch: str | None = None) -> bytes:
    """A JSON body that nests no deeper than the stack has room for.

    patch: how the refusal of a patch begins

    Raises BadBody if it nests deeper than upstream reads, or holds too many values.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= ORDINARY and opened + raw.count(b",") < NODES_MAX:
        return raw
    deepest = _depth(raw)[0]
    if deepest <= ORDINARY:
        return raw
    levels = room()
    if deepest > levels:
        raise BadBody(status.bad_request(_too_deep(target, raw, patch, _depth(raw, levels)[1])))
    resource = target.resource
    fixed = not resource.custom and resource.plural not in _DEEP_KINDS
    shallow = cut(raw, ORDINARY) if fixed else None
    return raw if shallow is None else shallow


def _too_deep(target: Target, raw: bytes, patch: str | None, mark: str) -> str:
    """The words about a body that nests too deep; `mark` is where it does."""
    why = f"invalid character '{mark}' exceeded max depth"
    if patch is not None:
        return patch + why
    what = f"the object provided is unrecognized (must be of type {_kind(target)}): "
    return f"{what}{unread_head(why)} ({summarize(raw)})"


def _depth(raw: bytes, levels: int = 0) -> tuple[int, str]:
    """How deep a body nests, and what opens the first level beyond `levels`.

    Raises BadBody for too many values.
    """
    depth, deepest, nodes, beyond = 0, 0, 1, ""
    for result in _MARKS.finditer(raw):
        mark = result[0]
        if mark in (b"[", b"{", b","):
            nodes += 1
            if nodes > NODES_MAX:
                raise BadBody(status.too_large(TOO_MANY))
        if mark in (b"[", b"{"):
            depth += 1
            if depth > deepest:
                deepest = depth
                if depth == levels + 1:
                    beyond = mark.decode()
        elif mark in (b"]", b"}"):
            depth -= 1
    return deepest, beyond


_HALF = pattern(rb"\\u[dD][89a-fA-F]")
_ESCAPE = pattern(
    rb"\\(?:u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _whole_characters(raw: bytes) -> bytes:
    """JSON text with U+FFFD in place of unpaired surrogates, as Go reads them."""
    if _HALF.search(raw) is None:
        return raw
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], raw)


def json_text(
    names: Names, target: Target, header: str, raw: bytes, twice: list[str] | None = None
) -> bytes | None:
    """The body of a write as JSON text; None if there is none. Raises BadBody.

    twice: receives the messages about duplicate keys in YAML
    """
    if target.verb == "patch":
        return _patch_text(names, target, header, raw, twice)
    kind, problem = parse_media_type(header) if header else (names.media_json, "")
    if not raw and target.verb in ("delete", "deletecollection"):
        return None
    if problem or kind not in produced(names):
        raise BadBody(status.unsupported_media_type(produced(names)))
    if kind == names.media_protobuf and target.resource.json_only and target.verb in ("create", "update"):
        raise BadBody(status.bad_request(f"{_kind(target)} is not read from protobuf"))
    if kind == names.media_protobuf:
        return _from_protobuf(names, target, raw)
    if kind == names.media_yaml and target.verb in ("delete", "deletecollection"):
        return _deletion_from_yaml(raw)
    if kind == names.media_yaml:
        what = f"the object provided is unrecognized (must be of type {_kind(target)}): "
        return _shaped(target, _from_yaml(raw, what, f" ({summarize(raw)})", twice, of_object=True))
    return _whole_characters(_shaped(target, raw))


def _patch_text(names: Names, target: Target, header: str, raw: bytes, twice: list[str] | None) -> bytes:
    """The text of a patch.

    Quirk: its media type is compared case-sensitively.
    """
    kind = header.partition(";")[0]
    entry = [
        names.media_json_patch,
        names.media_merge_patch,
        names.media_strategic_patch,
        names.media_apply_patch,
    ]
    if target.resource.custom:
        entry.remove(names.media_strategic_patch)
    elif kind.partition(",")[0].strip() not in entry:
        raise BadBody(status.unsupported_patch() if raw else status.no_representation())
    if kind not in entry:
        raise BadBody(status.unsupported_media_type(entry))
    if kind == names.media_apply_patch:
        what = "error decoding YAML: error converting YAML to JSON: "
        return _shaped(target, _from_yaml(raw, what, "", twice))
    if kind == names.media_json_patch:
        _check_count(raw)
    words = "" if kind == names.media_strategic_patch else "error decoding patch: "
    return _whole_characters(_shaped(target, raw, words))


def _check_count(raw: bytes) -> None:
    """Raises BadBody if a JSON patch holds too many operations, which are not read."""
    if raw.count(b"{") <= OPERATIONS_MAX:
        return
    try:
        count = len(msgspec.json.decode(raw, type=list[msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return  # refused in the words of the reader
    if count > OPERATIONS_MAX:
        raise BadBody(status.too_large(too_many_operations(count)))


def in_one(twice: list[str]) -> str:
    """The messages about duplicate keys in one error of the YAML decoder; "" if there are none."""
    return "\n  ".join(["yaml: unmarshal errors:", *twice]) if twice else ""


def repeated_warnings(twice: list[str], directive: str) -> tuple[str, ...]:
    """The warnings about duplicate keys of an apply, which `Strict` refuses once it is merged."""
    return () if directive in ("Ignore", "Strict") else tuple(twice)


def _kind(target: Target) -> str:
    sub = target.resource.subresource(target.subresource) if target.subresource else None
    return sub.kind if sub is not None else target.resource.kind


def _from_protobuf(names: Names, target: Target, raw: bytes) -> bytes:
    deletes = target.verb in ("delete", "deletecollection")
    kind, api_version = _kind(target), target.resource.api_version
    group = target.resource.upstream_group
    sub = target.resource.subresource(target.subresource) if target.subresource else None
    if deletes:
        # They may be in the group version of the request too.
        group, kind, api_version = "", "DeleteOptions", "v1"
    elif sub is not None and sub.group:
        group, api_version = names.upstream_group(sub.group), f"{sub.group}/{sub.version}"
    try:
        text = msgspec.json.encode(decode(raw, group, Default(api_version, kind)))
    except ProtobufTooLarge:
        raise BadBody(status.too_large(TOO_MANY)) from None
    except ProtobufError as error:
        if deletes:  # Quirk: the decoder's errors are given without more (delete.go)
            raise BadBody(status.status(500, "", str(error))) from None
        raise BadBody(status.bad_request(_unread(error, kind, raw))) from None
    return _shaped(target, text)  # JSON inside of it may nest


def _unread(error: ProtobufError, kind: str, raw: bytes) -> str:
    """The words about a body in protobuf that cannot be read (transformDecodeError)."""
    if isinstance(error, MessageError):
        return f'{error.kind} in version "{error.version}" cannot be handled as a {kind}: {error}'
    return f"the object provided is unrecognized (must be of type {kind}): {error} ({summarize(raw)})"


def _deletion_from_yaml(raw: bytes) -> bytes:
    """Options of a deletion as JSON text.

    Quirk: the decoder's errors are given as they are (delete.go).
    """
    try:
        value = load_yaml(raw)
    except YamlTooLarge:
        raise BadBody(status.too_large(TOO_MANY)) from None
    except YamlError as error:
        raise BadBody(status.status(500, "", str(error))) from None
    return msgspec.json.encode(value)


def _from_yaml(
    raw: bytes, what: str, shown: str, twice: list[str] | None = None, *, of_object: bool = False
) -> bytes:
    try:
        value = load_yaml(raw, twice)
        if of_object and value is not None and not isinstance(value, dict):
            raise BadBody(status.bad_request(f"{what}{head_problem(value)}{shown}"))
        return msgspec.json.encode(value, order="deterministic")  # as Go writes maps
    except YamlTooLarge:
        raise BadBody(status.too_large(TOO_MANY)) from None
    except YamlError as error:
        raise BadBody(status.bad_request(f"{what}{error}{shown}")) from None
