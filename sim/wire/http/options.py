"""Options of writes in the query: dryRun, fieldManager, fieldValidation, force.

Mirrors  kubernetes v1.25 apimachinery pkg/apis/meta/v1/validation (ValidateCreateOptions,
         ...PatchOptions, ...UpdateOptions, ...DeleteOptions).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from sim.api import status
from sim.api.refusals import Refusal
from sim.api.schema.json_text import go_quote
from sim.api.status import Cause
from sim.api.types import Verb
from sim.api.validation.errors import FieldError
from sim.api.verbs.call import is_true
from sim.api.verbs.delete import delete_option_errors
from sim.api.verbs.list import check_list_options
from sim.dataclass import dataclass
from sim.ident import Names
from sim.options.features.gates import DRY_RUN, SERVER_SIDE_APPLY, is_on
from sim.units import not_whole, parse_whole
from sim.wire.http.refused import Refused
from sim.wire.http.routing import Target, query_pairs

MANAGER_MAX = 128
_KINDS = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}


class BadOption(Refused):
    """Options are refused with this Status."""


@dataclass(frozen=True, slots=True)
class _Cause:
    reason: str
    field: str
    message: str


def check_gates(names: Names, target: Target, content: str, query: str, gates: Collection[str]) -> None:
    """Refuse a write that needs a feature that is off, before its body is read.  Raises BadOption."""
    if target.verb not in _KINDS:
        return
    applies = target.verb == "patch" and content.partition(";")[0].strip() == names.media_apply_patch
    if applies and not target.resource.custom and not is_on(gates, SERVER_SIDE_APPLY):
        raise BadOption(status.unsupported_patch())
    if not is_on(gates, DRY_RUN) and any(key == "dryRun" for key, _ in query_pairs(query)):
        raise BadOption(status.bad_request("the dryRun feature is disabled"))


def check_options(
    names: Names,
    target: Target,
    content: str,
    options: Mapping[str, str],
    query: str,
    body: bytes | None,
) -> None:
    """The options in a query string.  Raises BadOption.

    options: the first value of each parameter
    """
    if (
        "export" in options
        and target.verb == "get"
        and not target.subresource
        and options["export"] not in ("false", "0", "")
    ):
        text = "the export parameter, deprecated since v1.14, is no longer supported"
        raise BadOption(status.bad_request(text))
    kind = _KINDS.get(target.verb)
    if kind is None:
        return
    dry_runs = [value for key, value in query_pairs(query) if key == "dryRun"]
    if kind == "DeleteOptions":
        causes: list[Cause] = list(_delete(options, dry_runs, body))
    else:
        causes = list(_write(names, target.verb, content, options, dry_runs))
    if causes:
        raise BadOption(status.invalid(names.group("meta"), kind, "", causes))


def check_list(names: Names, target: Target, options: Mapping[str, str]) -> None:
    """The options of a list that selects what is deleted; they are read before the body.

    Raises BadOption.
    """
    if target.verb == "deletecollection":
        try:
            check_list_options(options, names.group("meta"))
        except Refusal as refusal:
            raise BadOption(refusal.body) from None


@lru_cache(maxsize=1024)
def manager_of(agent: str) -> str:
    """The field manager of a User-Agent: its printable characters before the first slash, up to the
    maximum length.
    """
    name = "".join(letter for letter in agent.partition("/")[0] if letter.isprintable())
    return name.encode("utf-8", "replace")[:MANAGER_MAX].decode("utf-8", "ignore") or "unknown"


def _unsupported(field: str, shown: str, supported: str) -> _Cause:
    return _Cause(
        "FieldValueNotSupported", field, f"Unsupported value: {shown}: supported values: {supported}"
    )


def _dry_run(values: list[str]) -> Iterator[_Cause]:
    if any(value != "All" for value in values):
        shown = ", ".join(go_quote(value) for value in values)
        yield _unsupported("dryRun", f"[]string{{{shown}}}", '"All"')


def _write(
    names: Names, verb: Verb, content: str, options: Mapping[str, str], dry_runs: list[str]
) -> Iterator[_Cause]:
    manager = options.get("fieldManager", "")
    apply = content.partition(";")[0].strip() == names.media_apply_patch
    if verb == "patch" and apply and not manager:
        yield _Cause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
    if verb == "patch" and not apply and "force" in options:
        yield _Cause("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch")
    if len(manager.encode()) > MANAGER_MAX:
        yield _Cause("FieldValueTooLong", "fieldManager", f"Too long: must have at most {MANAGER_MAX} bytes")
    for count, char in enumerate(manager):
        if not char.isprintable():
            place = len(manager[:count].encode("utf-8", "replace"))
            text = f"Invalid value: {go_quote(manager)}: invalid character U+{ord(char):04X} (at position {place})"
            yield _Cause("FieldValueInvalid", "fieldManager", text)
    yield from _dry_run(dry_runs)
    level = options.get("fieldValidation", "")
    if level not in ("", "Ignore", "Strict", "Warn"):
        yield _unsupported("fieldValidation", go_quote(level), '"", "Ignore", "Strict", "Warn"')


def _delete(options: Mapping[str, str], dry_runs: list[str], body: bytes | None) -> Iterator[FieldError]:
    """The query counts only without a body."""
    if body:
        return
    grace = options.get("gracePeriodSeconds")
    if grace is not None and parse_whole(grace) is None:
        raise BadOption(status.bad_request(not_whole(grace)))
    orphan = is_true(options, "orphanDependents") if "orphanDependents" in options else None
    yield from delete_option_errors(options.get("propagationPolicy"), orphan, dry_runs)
