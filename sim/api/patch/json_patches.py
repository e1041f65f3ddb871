"""JSON patch and merge patch: (document, patch) become the patched document, by path copy.

A JSON patch copies a container once, however many of its operations change it (`_OwnMap`,
`_OwnList`).

Holds: neither argument is changed, and the parts that a patch does not touch are shared with the
old document by identity. A refusal is a `PatchError` with the parts of its Status; no patch is half
applied. The result of a JSON patch is no deeper than a body may be, and exceeds the length of
document and patch by at most `COPIED_MAX`.

Mirrors  gopkg.in/evanphx/json-patch.v4 (as vendored by kubernetes v1.25: Patch.Apply, MergePatch),
         apiserver pkg/endpoints/handlers/patch.go: jsonPatcher.
Quirk  as upstream: an absent key of a map reads as null, so `replace`, `copy` and `test null`
         accept it; the text before a path's first "/" is ignored; indexes may be negative and may
         have leading zeros; `replace ""` with a scalar does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sim.api.refusals import GENERIC
from sim.api.schema.field_validation import go_kind
from sim.api.schema.json_text import GO_DEPTH_MAX, Twice
from sim.api.types import Json, Obj
from sim.pauses import spent

# apiserver pkg/endpoints/handlers/patch.go: maxJSONPatchOperations.
OPERATIONS_MAX = 10_000
# pkg/server/config.go: JSONPatchMaxCopyBytes, the total of the `copy` operations of one patch.
COPIED_MAX = 3 * 1024 * 1024
OPERATION_US, COPIED_PER_US = 60, 20  # of processor time: an operation on a long list; bytes
GENERIC_REFUSAL = GENERIC[422]


class PatchError(Exception):
    """A refused patch: HTTP code, Status reason ("" for upstream's bare 500), message, details.

    cause: what the library says, which only the patches of webhooks show
    """

    def __init__(self, code: int, reason: str, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.cause = message


def bad_patch(message: str) -> PatchError:
    """The refusal of a malformed patch."""
    return PatchError(400, "BadRequest", message)


def _unprocessable() -> PatchError:
    # Upstream only logs the cause; the client gets this text in every case.
    return PatchError(422, "Invalid", GENERIC_REFUSAL, {})


# --- merge patch (RFC 7386) -----------------------------------------------------------------------


def merge_patch(target: Json, patch: Json) -> Json:
    """The target with the patch applied: maps merge, null removes, any other value replaces.

    A value that takes the place of a map is not changed.  All others lose the nulls of their maps,
    however deep these are in lists.
    """
    if not isinstance(target, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    out = dict(target)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def _without_nulls(value: Json) -> Json:
    """A value without the keys of its maps that hold null; the nulls of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(below) for key, below in value.items() if below is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def check_merge_patch(patch: Json) -> None:
    """Raises if the body is not a merge patch of an object."""
    if patch is None:
        raise bad_patch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        kind = go_kind(patch)
        raise bad_patch(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )


# --- JSON patch (RFC 6902) ------------------------------------------------------------------------

_KNOWN_FIELDS = ("op", "path", "from", "value")


def check_operations(patch: Json) -> list[str]:
    """The unknown fields ("[0].extra") of a decoded JSON patch; raises on a wrong type."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise bad_patch(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type []handlers.jsonPatchOp"
        )
    unknown = []
    for i, operation in enumerate(patch):
        if not isinstance(operation, dict):
            if operation is None:
                continue
            raise bad_patch(
                f"error decoding patch: json: cannot unmarshal {go_kind(operation)} into Go value of type handlers.jsonPatchOp"
            )
        for key, value in operation.items():
            if key not in _KNOWN_FIELDS:
                unknown.append(f"[{i}].{key}")
            elif key != "value" and value is not None and not isinstance(value, str):
                raise bad_patch(
                    f"error decoding patch: json: cannot unmarshal {go_kind(value)}"
                    f" into Go struct field jsonPatchOp.{key} of type string"
                )
    if len(patch) > OPERATIONS_MAX:
        raise PatchError(413, "RequestEntityTooLarge", too_many_operations(len(patch)))
    return unknown


def too_many_operations(count: int) -> str:
    """The refusal of a JSON patch of that many operations."""
    allowed = f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}"
    return f"Request entity too large: {allowed}, got {count}"


def json_patch_problems(patch: Json) -> list[str]:
    """The messages about unknown and duplicate fields of a JSON patch."""
    found = [f'json patch unknown field "{path}"' for path in check_operations(patch)]
    for i, operation in enumerate(patch or ()):
        if isinstance(operation, Twice):
            found += [f'json patch duplicate field "[{i}].{key}"' for key in operation.keys_twice]
    return found


class _OwnMap(dict[str, Any]):
    """A map that the patch has copied, so that later operations change the copy."""


class _OwnList(list[Any]):
    """A list that the patch has copied."""


def _owned(container: Any) -> Any:
    """The container itself if the patch owns it, otherwise a copy that it may change."""
    if isinstance(container, _OwnMap | _OwnList):
        return container
    return _OwnMap(container) if isinstance(container, dict) else _OwnList(container)


def _plain(value: Json) -> Json:
    """The value with plain copies of the containers that the patch owns; only these contain others."""
    if isinstance(value, _OwnMap):
        return {key: _plain(below) for key, below in value.items()}
    if isinstance(value, _OwnList):
        return [_plain(below) for below in value]
    return value


def _copied(value: Json) -> Json:
    """A copy of a value that changes independently.

    It is the value's text in upstream, where maps that an operation has passed have sorted keys.
    """
    if isinstance(value, _OwnMap):
        return {key: _copied(value[key]) for key in sorted(value)}
    return [_copied(below) for below in value] if isinstance(value, _OwnList) else value


def json_patch(document: Json, patch: Json) -> Json:
    """The document after all operations; raises `PatchError` at the first that fails."""
    check_operations(patch)
    copied = 0
    for operation in patch or ():
        operation = operation or {}
        spent(OPERATION_US)
        if operation.get("op") == "copy":
            length = _length(_source(document, operation))
            spent(length // COPIED_PER_US)
            copied += length
            if copied > COPIED_MAX:
                raise _unprocessable()
        try:
            document = _apply(document, operation)
        except PatchError as error:
            error.cause = _cause(document, operation)
            raise
    if _is_deep(document):
        raise _unprocessable()
    return _plain(document)


_OPERATIONS = ("add", "remove", "replace", "test", "move", "copy")


def _cause(document: Json, operation: Obj) -> str:
    """Why an operation fails, in the words of evanphx/json-patch v4.12."""
    op, path = operation.get("op"), operation.get("path")
    if op not in _OPERATIONS:
        return f"Unexpected kind: {op or 'unknown'}"
    if not isinstance(path, str):
        return GENERIC_REFUSAL
    try:
        key = _find(document, path)[1]
    except PatchError:
        return f'{op} operation does not apply: doc is missing path: "{path}": missing value'
    texts = {
        "remove": f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value",
        "replace": f"replace operation does not apply: doc is missing key: {path}: missing value",
        "test": f"testing value {path} failed: test failed",
    }
    return texts.get(op, GENERIC_REFUSAL)


def _source(document: Json, operation: Obj) -> Json:
    """The value that a `move` or `copy` reads."""
    source = operation.get("from")
    if not isinstance(source, str):
        raise _unprocessable()
    return _member(*_find(document, source))


def _length(value: Json) -> int:
    """The length of the value's JSON text."""
    if _is_deep(value):
        raise _unprocessable()
    return len(msgspec.json.encode(value))


def _is_deep(value: Json) -> bool:
    """True if the value is deeper than a body may be, as operations can nest values."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(GO_DEPTH_MAX + 1):
        below = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in below for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _apply(document: Json, operation: Obj) -> Json:
    op, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise _unprocessable()
    value = operation.get("value")
    if op == "add":
        return _change(document, path, _add, value)
    if op == "remove":
        return _change(document, path, _remove, None)
    if op == "replace":
        if path == "":
            return value if isinstance(value, dict | list) else document
        return _change(document, path, _replace, value)
    if op == "test":
        _test(document, path, operation)
        return document
    if op not in ("move", "copy"):
        raise _unprocessable()
    moved = _source(document, operation)
    if op == "move":
        document = _change(document, operation["from"], _remove, None)
        moved = _copied(moved)
    else:
        document = _change(document, path, _leave, None)
        moved = _copied(_source(document, operation))
    return _change(document, path, _add, moved)


def _test(document: Json, path: str, operation: Obj) -> None:
    found = document if path == "" else _member(*_find(document, path))
    # A test without `value` always fails; with null it accepts an absent key.
    if "value" not in operation or not _same_text(found, operation["value"]):
        raise _unprocessable()


def _same_text(a: Json, b: Json) -> bool:
    """Equality of values of which upstream compares the scalars as texts (lazyNode.equal)."""
    return all(isinstance(c, float) is isinstance(d, float) and _same(c, d) for c, d in _leaves(a, b))


def equal(a: Json, b: Json) -> bool:
    """Equality of JSON values; Python alone would equate True and 1."""
    return all(_same(c, d) for c, d in _leaves(a, b))


def _same(a: Json, b: Json) -> bool:
    """Equality of two values of which one is no container, or both are empty ones of a kind."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def _leaves(a: Json, b: Json) -> Iterator[tuple[Json, Json]]:
    """The values at the same places of two values, down to where they differ in form."""
    left = [(a, b)]
    while left:
        c, d = left.pop()
        if isinstance(c, dict) and isinstance(d, dict) and c.keys() == d.keys():
            left += [(value, d[key]) for key, value in c.items()]
        elif isinstance(c, list) and isinstance(d, list) and len(c) == len(d):
            left += zip(c, d, strict=True)
        elif isinstance(c, dict | list) and isinstance(d, dict | list):
            yield None, False  # of different forms
        else:
            yield c, d


def _split(path: str) -> list[str]:
    parts = path.split("/")
    # "data/q" names the root's member "q": the text before the first "/" is ignored.
    if len(parts) < 2 or len(parts) > GO_DEPTH_MAX:  # no document is that deep
        raise _unprocessable()
    return [p.replace("~1", "/").replace("~0", "~") for p in parts[1:]]


def _find(document: Json, path: str) -> tuple[Json, str]:
    """The container in which a path's last part is looked up, and that part."""
    *parents, key = _split(path)
    for part in parents:
        document = _member(document, part)
        if not isinstance(document, dict | list):
            raise _unprocessable()
    return document, key


def pointed(document: Json, path: str) -> Iterator[Json]:
    """The containers that a path passes in a document, as far as it goes."""
    for part in path.split("/")[1:]:
        if not isinstance(document, dict | list):
            return
        yield document
        try:
            document = _member(document, part.replace("~1", "/").replace("~0", "~"))
        except PatchError:
            return


def _member(container: Json, key: str) -> Json:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(container, key, len(container))]


def _index(container: list[Any], key: str, size: int) -> int:
    """A list index below `size`; negative ones count from the end."""
    try:
        index = int(key)
    except ValueError:
        raise _unprocessable() from None
    if "_" in key or key != key.strip() or index >= size or index < -size:
        raise _unprocessable()
    return index + size if index < 0 else index


def _change(document: Json, path: str, edit: Any, value: Json) -> Json:
    """The document with `edit` applied to the container of the path's last part."""
    *parents, last = _split(path)
    if not isinstance(document, dict | list):
        raise _unprocessable()
    document = node = _owned(document)
    for part in parents:
        below = _member(node, part)
        if not isinstance(below, dict | list):
            raise _unprocessable()
        below = _owned(below)
        if isinstance(node, list):
            node[_index(node, part, len(node))] = below
        else:
            node[part] = below
        node = below
    edit(node, last, value)
    return document


def _leave(_container: Any, _key: str, _value: Json) -> None:
    """No change: the patch only owns the containers that the path passes."""


def _add(container: Any, key: str, value: Json) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, len(container) + 1), value)


def _remove(container: Any, key: str, _value: Json) -> None:
    if isinstance(container, list):
        del container[_index(container, key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _unprocessable()


def _replace(container: Any, key: str, value: Json) -> None:
    if isinstance(container, list):
        container[_index(container, key, len(container))] = value
    else:
        container[key] = value
