"""Priority and fairness, the part before the queues: the flow of a request, and the seats of each
level.

FlowSchemas and PriorityLevelConfigurations become a `Plan`; a request gets a flow: the schema that
matches it, the level of that schema, the hash that selects its queues, and how many seats it takes
for how long.

Holds: each request has a flow; equal flows have equal hashes in every process and every run.

Mirrors  kubernetes v1.25 apiserver
         pkg/util/flowcontrol/{apf_controller,rule,conc_alloc,formatting}.go,
         request/{list_work_estimator,mutating_work_estimator,width}.go, pkg/util/shufflesharding.
Differs  Requests for paths without a resource are classified, and take no seat: they need no
         storage, so none is ever slow here.  The object count of a list is the storage's at that
         instant, not a minute old, and is never stale.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from sim.api.types import Json, Obj, UserInfo
from sim.ident import Names
from sim.units import MS

CATCH_ALL = "catch-all"  # flowcontrol/types.go: FlowSchemaNameCatchAll, the fallback
ALL = "*"
FLOWS_MAX = 4096  # requests of which the flow is remembered
HAND_MAX = 15  # shufflesharding.go: the largest hand
SEATS_MAX = 10  # request/config.go: maximumSeats
SEATS_PERCENT = 15  # the largest part of a level's limit that one request may take
OBJECTS_PER_SEAT = 100  # request/config.go: objectsPerSeat
WATCHES_PER_SEAT = 10  # request/config.go: watchesPerSeat
EVENT_US = 5 * MS  # request/config.go: eventAdditionalDuration


class Queuing(NamedTuple):
    """How a level queues requests.

    queues: number of queues
    hand: number of queues per flow
    length: bound of each queue
    """

    queues: int
    hand: int
    length: int


class Level(NamedTuple):
    """A priority level.

    limit: its seats; an exempt level needs none
    queuing: None if it rejects requests that find no seat
    uid: of its object, "" if there is none
    """

    name: str
    limit: int
    queuing: Queuing | None = None
    exempt: bool = False
    uid: str = ""

    @property
    def seats_max(self) -> int:
        """The largest number of seats that one request takes here."""
        most = min(SEATS_MAX, -(-self.limit * SEATS_PERCENT // 100))
        if self.queuing is not None:
            most = min(most, self.limit // self.queuing.hand)
        return max(1, most)


class Asked(NamedTuple):
    """The attributes by which a request is classified.

    resource: with the subresource, as in "nodes/status"; "" for a request for a path
    path: of a request that is not for a resource
    """

    user: UserInfo
    verb: str
    group: str
    resource: str
    namespace: str = ""
    path: str = ""


class Flow(NamedTuple):
    """Requests that share queues, so that flows get fair shares.

    distinguisher: what sets it apart from other flows of its schema: a user, a namespace or ""
    schema_uid: of the schema's object, "" if there is none
    """

    schema: str
    level: Level
    hash: int
    distinguisher: str = ""
    schema_uid: str = ""


class Work(NamedTuple):
    """The expected cost of a request.

    seats: while it runs
    final_seats: afterwards, for its watch events
    extra_us: how long the final seats stay taken
    """

    seats: int = 1
    final_seats: int = 0
    extra_us: int = 0


class Plan:
    """The present configuration."""

    def __init__(self, names: Names, schemas: Iterable[Obj], levels: Iterable[Obj], seats: int) -> None:
        self._names = names
        self.levels = levels_of(levels, seats)
        found = [schema for schema in schemas if _level_name(schema) in self.levels]
        self._schemas = sorted(found, key=_order)
        self._flows: dict[tuple[object, ...], Flow] = {}

    def flow(self, asked: Asked) -> Flow:
        """The flow of a request: of the first matching schema.  What it depends on decides it."""
        user = asked.user
        key = (user.name, user.groups, *asked[1:])
        found = self._flows.get(key)
        if found is None:
            if len(self._flows) >= FLOWS_MAX:
                self._flows.clear()
            found = self._flows[key] = self._flow(asked)
        return found

    def _flow(self, asked: Asked) -> Flow:
        for schema in self._schemas:
            if any(_rule_matches(self._names, rule, asked) for rule in schema["spec"].get("rules") or ()):
                method = (schema["spec"].get("distinguisherMethod") or {}).get("type") or ""
                by = {"ByUser": asked.user.name, "ByNamespace": asked.namespace}.get(method, "")
                name, level = schema["metadata"]["name"], self.levels[_level_name(schema)]
                return Flow(name, level, flow_hash(name, by), by, schema["metadata"].get("uid", ""))
        by = asked.user.name
        return Flow(CATCH_ALL, self.levels[CATCH_ALL], flow_hash(CATCH_ALL, by), by)


# --- levels ---------------------------------------------------------------------------------------


def levels_of(levels: Iterable[Obj], seats: int) -> dict[str, Level]:
    """Levels by name, each with its share of the server's seats, rounded up; always with the
    catch-all level.
    """
    limited: dict[str, Obj] = {}
    uids: dict[str, str] = {}
    out: dict[str, Level] = {}
    for level in levels:
        spec, name = level["spec"], level["metadata"]["name"]
        uids[name] = level["metadata"].get("uid", "")
        if spec.get("type") == "Exempt":
            out[name] = Level(name, 0, exempt=True, uid=uids[name])
        else:
            limited[name] = spec.get("limited") or {}
    limited.setdefault(CATCH_ALL, {"assuredConcurrencyShares": 5})
    total = sum(_shares(one) for one in limited.values())
    for name, one in limited.items():
        response = one.get("limitResponse") or {}
        queuing = response.get("queuing") or {}
        out[name] = Level(
            name,
            -(-seats * _shares(one) // total),
            Queuing(queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"])
            if response.get("type") == "Queue"
            else None,
            uid=uids.get(name, ""),
        )
    return out


def _shares(limited: Obj) -> int:
    """The shares of a level; 1 of one that another server has stored without them."""
    return int(limited.get("assuredConcurrencyShares") or 1)


# --- classification -------------------------------------------------------------------------------


def _level_name(schema: Obj) -> str:
    return str(schema["spec"]["priorityLevelConfiguration"]["name"])


def _order(schema: Obj) -> tuple[int, str]:
    return (schema["spec"]["matchingPrecedence"], schema["metadata"]["name"])


def _rule_matches(names: Names, rule: Obj, asked: Asked) -> bool:
    if not any(_is_subject(names, subject, asked.user) for subject in rule["subjects"]):
        return False
    if asked.path:
        return any(_is_path_covered(covered, asked) for covered in rule.get("nonResourceRules") or ())
    return any(_is_covered(covered, asked) for covered in rule.get("resourceRules") or ())


def _is_subject(names: Names, subject: Obj, user: UserInfo) -> bool:
    if subject["kind"] == "User":
        return subject["user"]["name"] in (ALL, user.name)
    if subject["kind"] == "Group":
        return subject["group"]["name"] == ALL or subject["group"]["name"] in user.groups
    account = subject["serviceAccount"]
    if account["name"] == ALL:
        return user.name.startswith(names.service_account_user(account["namespace"], ""))
    return user.name == names.service_account_user(account["namespace"], account["name"])


def _is_path_covered(rule: Obj, asked: Asked) -> bool:
    """Quirk: a path covers what is below it, also without "/*" at its end."""
    return _has(rule["verbs"], asked.verb) and any(
        url in (ALL, asked.path) or asked.path.startswith(url.removesuffix(ALL).removesuffix("/") + "/")
        for url in rule["nonResourceURLs"]
    )


def _is_covered(rule: Obj, asked: Asked) -> bool:
    if not (
        _has(rule["verbs"], asked.verb)
        and _has(rule["apiGroups"], asked.group)
        and _has(rule["resources"], asked.resource)
    ):
        return False
    return (
        _has(rule.get("namespaces"), asked.namespace) if asked.namespace else bool(rule.get("clusterScope"))
    )


def _has(values: Json, value: str) -> bool:
    return isinstance(values, list) and (values == [ALL] or value in values)


# --- shuffle sharding -----------------------------------------------------------------------------


def flow_hash(schema: str, distinguisher: str) -> int:
    """64 bits that identify a flow (apf_controller.go, hashFlowID)."""
    return int.from_bytes(sha256(f"{schema}\0{distinguisher}".encode()).digest()[:8], "little")


def deal(flow: int, deck: int, hand: int) -> list[int]:
    """Different queues of a level, selected by a flow's hash: two flows seldom have the same hand."""
    out: list[int] = []
    for i in range(min(hand, deck, HAND_MAX)):
        flow, card = divmod(flow, deck - i)
        for taken in sorted(out):
            if card >= taken:
                card += 1
        out.append(card)
    return out


# --- work -----------------------------------------------------------------------------------------


def list_work(stored: int, limit: int, cached: bool, selects: bool, seats_max: int) -> Work:
    """The cost of a list: one seat per hundred objects that it reads.

    limit: 0 for none
    """
    page = min(limit, stored) if limit else stored
    if cached:
        looked_at = stored
    else:
        looked_at = stored + page if selects else 2 * page
    return Work(min(max(1, -(-looked_at // OBJECTS_PER_SEAT)), seats_max))


def write_work(watches: int, seats_max: int) -> Work:
    """The cost of a write, which grows with the number of watches that receive its event."""
    if watches < WATCHES_PER_SEAT:
        return Work()
    wanted = -(-watches // WATCHES_PER_SEAT)
    final = min(wanted, seats_max)
    return Work(1, final, wanted * EVENT_US // final)
