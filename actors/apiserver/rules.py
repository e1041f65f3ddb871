"""What an object passes on its way through a replica: decoding, defaults, admission, validation.

Turns the pure parts of the API machinery into the `Rules` the verbs run on.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/create.go (decode), pkg/admission.
Differs  admission reads the store as it is now; upstream's plugins read informers that may lag by milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from actors.apiserver.ports import LocalStore
from sim.machinery import fieldvalidation, status
from sim.machinery.admission import Attributes, Chain, Denial
from sim.machinery.api import Json, Obj
from sim.machinery.defaults import apply_defaults
from sim.machinery.names_gen import generated_name
from sim.machinery.scheme import Scheme
from sim.machinery.store import Range
from sim.machinery.validation import validate_create, validate_update
from sim.machinery.verbs_call import Call, Patched, Refusal, Rules, bad_request

OPERATIONS = {"create": "create", "update": "update", "patch": "update", "delete": "delete"}


class StoreView:
    """The cluster as admission plugins read it."""

    def __init__(self, store: LocalStore, scheme: Scheme) -> None:
        self._store = store
        self._scheme = scheme

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        item = self._store.get(self._scheme.key(resource, namespace, name))
        return None if item is None else item.obj

    def list(self, resource: str, namespace: str = "") -> Iterable[Obj]:
        page = self._store.range(Range(self._scheme.prefix(resource, namespace)))
        return [item.obj for item in getattr(page, "items", ())]


class Machinery:
    """The rules of one replica.  `disabled`: --disable-admission-plugins."""

    def __init__(
        self,
        scheme: Scheme,
        store: LocalStore,
        bits: Callable[[int], int],
        disabled: tuple[str, ...] = (),
    ) -> None:
        self._view = StoreView(store, scheme)
        self._chain = Chain(scheme.names, lambda: generated_name("", bits), disabled)

    def rules(self) -> Rules:
        return Rules(
            decode=decode,
            defaults=apply_defaults,
            admit=self._admit,
            valid=_valid,
            check=self._check,
            conform=_conform,
        )

    def _attributes(self, call: Call, operation: str, old: Obj | None) -> Attributes:
        request = call.request
        return Attributes(
            operation=operation,
            resource=call.resource,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
            old=old,
        )

    def _admit(self, call: Call, obj: Obj, old: Obj | None) -> Obj:
        attributes = self._attributes(call, "create" if old is None else "update", old)
        result = self._chain.mutate(attributes, obj, self._view)
        if isinstance(result, Denial):
            raise _refusal(result)
        return result

    def _check(self, call: Call, obj: Obj | None, old: Obj | None) -> None:
        if obj is None:  # a deletion: its plugins say no in their first pass
            result = self._chain.mutate(self._attributes(call, "delete", None), {}, self._view)
            if isinstance(result, Denial):
                raise _refusal(result)
            return
        attributes = self._attributes(call, "create" if old is None else "update", old)
        denial = self._chain.validate(attributes, obj, self._view)
        if denial is not None:
            raise _refusal(denial)


def _refusal(denial: Denial) -> Refusal:
    return Refusal(denial.code, denial.reason, denial.message, denial.details)


def _valid(call: Call, obj: Obj, old: Obj | None) -> None:
    if old is None:
        errors = validate_create(call.resource, obj)
    else:
        errors = validate_update(call.resource, obj, old, call.subresource)
    if errors:
        name = obj["metadata"].get("name", "")
        raise Refusal.of(status.invalid_object(call.resource, name, errors))


def decode(call: Call) -> Obj:
    """The body of a POST or PUT as an object of the resource's kind; one of our own processes sends a good one."""
    body: Json = call.request.body
    resource = call.resource
    if isinstance(body, dict) and not call.unchecked:
        if body.get("apiVersion") == resource.api_version and body.get("kind") == resource.kind:
            return body
        if not body.get("apiVersion") and not body.get("kind"):
            return {**body, "apiVersion": resource.api_version, "kind": resource.kind}
    try:
        decoded = fieldvalidation.decode(resource, body, _directive(call))
    except fieldvalidation.DecodeError as error:
        raise bad_request(error.message) from None
    call.warnings += decoded.problems
    # An equal body keeps its shared parts, which defaults and validation know by identity.
    return body if decoded.obj == body else decoded.obj


def _directive(call: Call) -> str:
    return call.options.get("fieldValidation") or fieldvalidation.WARN


def _conform(call: Call, obj: Obj, patched: Patched) -> Obj:
    """What a patch has made, well typed and of its kind."""
    resource, directive = call.resource, _directive(call)
    made, problems = fieldvalidation.conform(resource.schema, obj, resource.kind)
    problems = [*patched.problems, *problems]
    wrong = patched.wrong or _other_kind(call, obj)
    if not wrong and isinstance(made, fieldvalidation.DecodeError):
        wrong = made.message
    if not wrong and problems and directive == fieldvalidation.STRICT:
        wrong = f"strict decoding error: {', '.join(problems)}"
    if wrong:
        raise Refusal.of(status.invalid("", "", "", [_BadPatch(patched.shown(), wrong)]))
    if directive != fieldvalidation.IGNORE:
        call.warnings += [problem for problem in problems if problem not in call.warnings]
    return {"apiVersion": resource.api_version, "kind": resource.kind, **made}


def _other_kind(call: Call, obj: Json) -> str:
    if not isinstance(obj, dict):
        return ""
    resource = call.resource
    for field, right in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) not in (None, "", right):
            return f'unable to decode: {field} is "{obj[field]}", not "{right}"'
    return ""


class _BadPatch:
    reason, field = "FieldValueInvalid", "patch"

    def __init__(self, shown: str, why: str) -> None:
        self.message = f"Invalid value: {json.dumps(shown, ensure_ascii=False)}: {why}"
