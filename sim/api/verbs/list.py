"""Lists: the revision and the source of a list, and its pages.

List options become a `ListPlan` by upstream's tables; the store's answer to a plan becomes a page.
A continue token carries the revision and the next key.

Holds: all pages of one list show one revision; the refusal of a token older than history carries a
token for an inconsistent continuation.

Mirrors  kubernetes v1.25 apiserver pkg/storage/{cacher/cacher.go (List), etcd3/store.go (GetList),
         continue.go}, apimachinery pkg/apis/meta/internalversion/validation.
Differs  a selector filters one range of the store instead of growing chunks; `resourceVersion=0`
         lists come in key order, not in random order.
"""

from __future__ import annotations

import json
import posixpath
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

from sim.api import selectors, status
from sim.api.go.base64 import URL_LETTERS, corrupt_at
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema.field_validation import go_kind
from sim.api.schema.json_text import parse
from sim.api.store import Compacted, FutureRevision, Item, Only, Page, Range, Unavailable
from sim.api.types import Obj, Reply
from sim.api.verbs.call import Call, unavailable
from sim.dataclass import dataclass
from sim.ident import CONTINUE_TOKEN_VERSION
from sim.options.features.gates import REMAINING_COUNT
from sim.units import NO_REVISION, Revision, go_quote, not_unsigned, not_whole, parse_unsigned, parse_whole

INCONSISTENT = Revision(-1)  # the revision in a token that continues at the present state
Matches = Callable[[Obj], bool]


@dataclass(frozen=True, slots=True)
class ListPlan:
    """How to answer a list.

    cached: True for the watch cache at `rev` or newer, False for the store at `rev` (0: latest)
    newer: True if the store may answer at any revision from `rev` on (NotOlderThan with a limit)
    start: the next key, relative to the prefix
    """

    cached: bool
    rev: Revision = NO_REVISION
    limit: int = 0
    start: str = ""
    newer: bool = False
    continued: bool = False


class _Cause:
    field = "resourceVersionMatch"

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message


def check_match(options: Mapping[str, str], group: str, watching: bool = False) -> None:
    """Raises 422 if resourceVersionMatch does not fit the other options."""
    match, rev = options.get("resourceVersionMatch", ""), options.get("resourceVersion", "")
    if not match:
        return
    causes = []
    texts = []
    if watching:
        texts.append("resourceVersionMatch is forbidden for watch")
    if not rev:
        texts.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.get("continue"):
        texts.append("resourceVersionMatch is forbidden when continue is provided")
    causes = [_Cause("FieldValueForbidden", f"Forbidden: {text}") for text in texts]
    if match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: {go_quote(match)}: supported values: "Exact", "NotOlderThan", ""'
        causes.append(_Cause("FieldValueNotSupported", text))
    if match == "Exact" and rev == "0":
        text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(_Cause("FieldValueForbidden", text))
    if causes:
        raise Refusal.of(status.invalid(group, "ListOptions", "", causes))


def check_list_options(options: Mapping[str, str], group: str, watching: bool = False) -> None:
    """Raises a refusal of options that no list can have, in upstream's order: what is no number,
    what is no selector, and then how they fit each other (get.go, delete.go).
    """
    timeout = options.get("timeoutSeconds", "")
    if timeout and parse_whole(timeout) is None:
        raise bad_request(not_whole(timeout))
    parse_limit(options)
    try:
        selectors.parse_labels(options.get("labelSelector", ""))
        selectors.check_fields(options.get("fieldSelector", ""))
    except selectors.SelectorError as error:
        raise bad_request(str(error)) from None
    check_match(options, group, watching)


def parse_limit(options: Mapping[str, str]) -> int:
    """The limit of a list; 0 means none."""
    text = options.get("limit")
    if text is None:
        return 0
    limit = parse_whole(text)
    if limit is None:
        raise bad_request(not_whole(text))
    return max(0, limit)


def parse_list_revision(text: str, stored: bool) -> Revision:
    """The resourceVersion of a list.

    For other texts, raises 400 where the store answers and upstream's bare 500 where the cache
    does.
    """
    if not text:
        return NO_REVISION
    revision = parse_unsigned(text)
    if revision is None:
        message = f"resourceVersion: Invalid value: {go_quote(text)}: {not_unsigned(text)}"
        raise bad_request(f"invalid resource version: {message}") if stored else internal(message)
    return Revision(revision)


def plan_list(options: Mapping[str, str], direct: bool) -> ListPlan:
    """The source and the revision of a list.

    direct: True if the resource has no watch cache
    """
    limit = parse_limit(options)
    text, match, token = (options.get(k, "") for k in ("resourceVersion", "resourceVersionMatch", "continue"))
    from_store = direct or not text or bool(token) or match == "Exact" or (limit > 0 and text != "0")
    rev = parse_list_revision(text, from_store)
    if token:
        token_rev, start = decode_token(token)
        if text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return ListPlan(False, max(token_rev, NO_REVISION), limit, start, continued=token_rev != INCONSISTENT)
    if not from_store:
        return ListPlan(True, rev)
    if not match and not limit:  # legacy semantics: at least as new
        return ListPlan(False, rev, newer=bool(rev))
    return ListPlan(False, rev, limit, newer=match == "NotOlderThan")


def encode_token(rev: Revision, start: str) -> str:
    """A continue token."""
    data = json.dumps({"v": CONTINUE_TOKEN_VERSION, "rv": rev, "start": start}, separators=(",", ":"))
    return urlsafe_b64encode(data.encode()).decode().rstrip("=")


def decode_token(token: str) -> tuple[Revision, str]:
    """Revision and relative key of a continue token."""
    wrong = corrupt_at(token, URL_LETTERS, padded=False)
    if wrong is not None:
        raise _bad_token(f"illegal base64 data at input byte {wrong}")
    token = token.replace("\n", "").replace("\r", "")
    raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        data = parse(raw.decode("latin-1"))  # byte by byte, as Go reads it
    except ValueError as error:
        raise _bad_token(str(error)) from None
    if not isinstance(data, dict | None):
        kind = go_kind(data)
        raise _bad_token(f"json: cannot unmarshal {kind} into Go value of type storage.continueToken")
    version, start = (_token_field(data or {}, name, str, "string") for name in ("v", "start"))
    rev = _token_field(data or {}, "rv", int, "int64")
    if version != CONTINUE_TOKEN_VERSION:
        raise _bad_token(f"server does not recognize this encoded version {version}")
    if not rev:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {CONTINUE_TOKEN_VERSION})")
    if not start:
        raise _bad_token(f"encoded start key empty (version {CONTINUE_TOKEN_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key or key.startswith("//"):
        raise _bad_token(start)
    return rev, start


_INT64 = 1 << 63


def _token_field(data: Obj, name: str, type_: type[Any], go_type: str) -> Any:
    """A field of a token, checked to be of its type."""
    value = data.get(name)
    if value is None:
        return type_()
    if type(value) is type_ and (type_ is str or -_INT64 <= value < _INT64):
        return value
    shown = f"number {json.dumps(value)}" if isinstance(value, int | float) else go_kind(value)
    if isinstance(value, bool) or type_ is str:
        shown = go_kind(value)
    raise _bad_token(
        f"json: cannot unmarshal {shown} into Go struct field continueToken.{name} of type {go_type}"
    )


def _bad_token(why: str) -> Refusal:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def list_stored(call: Call, plan: ListPlan, matches: Matches | None, only: Only | None = None) -> Steps:
    """A list answered by the store.  only: a hint about what matches"""
    prefix = call.registry.scheme.prefix(call.resource, call.request.namespace)
    start = prefix + plan.start if plan.start else ""
    rev = NO_REVISION if plan.newer else plan.rev
    answer = yield Range(prefix, start, plan.limit if matches is None else 0, rev, only)
    if isinstance(answer, Unavailable):
        unavailable(answer)
    if isinstance(answer, Compacted):
        if plan.continued:
            more = encode_token(INCONSISTENT, plan.start)
            raise Refusal.of(status.continue_expired(more))
        raise Refusal.of(status.compacted("list"))
    if isinstance(answer, FutureRevision):
        raise internal("etcdserver: mvcc: required revision is a future revision")
    assert isinstance(answer, Page)
    if plan.newer and answer.rev < plan.rev:
        raise Refusal.of(status.revision_too_large(plan.rev, answer.rev, 0))
    counts = REMAINING_COUNT not in call.registry.gates
    return page_reply(answer, plan, matches, prefix, counts)


def page_reply(
    page: Page, plan: ListPlan, matches: Matches | None, prefix: str, counts: bool = True
) -> Reply:
    """A page as a reply; with a selector, the limit counts matching items.

    counts: True if RemainingItemCount is on
    """
    items, more = page.items, page.more
    remaining: int | None = page.remaining if more and counts else None
    if matches is not None:
        items, more = _matching(page, matches, plan.limit)
        remaining = None
    if not more:
        return Reply(200, items=items, revision=page.rev)
    token = encode_token(page.rev, items[-1].key[len(prefix) :] + "\0")
    return Reply(200, items=items, revision=page.rev, more=token, remaining=remaining)


def _matching(page: Page, matches: Matches, limit: int) -> tuple[list[Item], bool]:
    """Up to `limit` matching items, and True if more keys follow the last of them."""
    items = page.items
    if not limit:
        return [item for item in items if matches(item.obj)], False
    out: list[Item] = []
    last = (items[-1].key if items else "") if page.whole is None else page.whole[1]
    for item in items:
        if matches(item.obj):
            out.append(item)
            if len(out) == limit:
                # Quirk: a page that is exactly full has a continue token, even if no later key
                # matches.
                return out, item.key != last
    return out, False
