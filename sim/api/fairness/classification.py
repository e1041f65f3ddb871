"""Priority and fairness, the part before any queue: which requests are alike, how many seats each level has.

Turns FlowSchemas and PriorityLevelConfigurations into a `Plan`, and a request into its flow: the schema that matches it, that
schema's level, the hash by which it finds its queues, and how many seats it takes for how long.

Holds: a request always has a flow; equal flows have equal hashes in every process and every run.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/{apf_controller,rule,conc_alloc,formatting}.go,
         request/{list_work_estimator,mutating_work_estimator,width}.go, pkg/util/shufflesharding.
Differs  - requests for paths without resource are not classified: they need no storage, so none is ever slow here.
         - a list's count of objects is the storage's at this instant, not a minute old; it is never stale.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from sim.api.types import Json, Obj, UserInfo
from sim.ident import Names
from sim.units import MS

CATCH_ALL = "catch-all"  # flowcontrol/types.go: FlowSchemaNameCatchAll, matched where nothing else is
ALL = "*"
HAND_MAX = 15  # shufflesharding.go: the most queues a flow is dealt
SEATS_MAX = 10  # request/config.go: maximumSeats
SEATS_PERCENT = 15  # of a level's limit that one request may take at most
OBJECTS_PER_SEAT = 100  # request/config.go: objectsPerSeat
WATCHES_PER_SEAT = 10  # request/config.go: watchesPerSeat
EVENT_US = 5 * MS  # request/config.go: eventAdditionalDuration


class Queuing(NamedTuple):
    """How a level lets requests wait: so many queues, of which a flow is dealt a hand, each of a length."""

    queues: int
    hand: int
    length: int


class Level(NamedTuple):
    """A priority level.  limit: its seats (an exempt one has no need of any); queuing None: it lets nobody wait."""

    name: str
    limit: int
    queuing: Queuing | None = None
    exempt: bool = False

    @property
    def seats_max(self) -> int:
        """The most seats that one request takes here."""
        most = min(SEATS_MAX, -(-self.limit * SEATS_PERCENT // 100))
        if self.queuing is not None:
            most = min(most, self.limit // self.queuing.hand)
        return max(1, most)


class Asked(NamedTuple):
    """What a request is classified by; `resource` with its subresource: "nodes/status"."""

    user: UserInfo
    verb: str
    group: str
    resource: str
    namespace: str = ""


class Flow(NamedTuple):
    """Requests that are served fairly among themselves."""

    schema: str
    level: Level
    hash: int


class Work(NamedTuple):
    """What a request is expected to cost: seats while it runs, and afterwards for so long (its events)."""

    seats: int = 1
    final_seats: int = 0
    extra_us: int = 0


class Plan:
    """The configuration as it is now."""

    def __init__(self, names: Names, schemas: Iterable[Obj], levels: Iterable[Obj], seats: int) -> None:
        self._names = names
        self.levels = levels_of(levels, seats)
        found = [schema for schema in schemas if _level_name(schema) in self.levels]
        self._schemas = sorted(found, key=_order)

    def flow(self, asked: Asked) -> Flow:
        """The flow of a request: of the matching schema that comes first."""
        for schema in self._schemas:
            if any(_rule_matches(self._names, rule, asked) for rule in schema["spec"].get("rules") or ()):
                method = (schema["spec"].get("distinguisherMethod") or {}).get("type") or ""
                by = {"ByUser": asked.user.name, "ByNamespace": asked.namespace}.get(method, "")
                name = schema["metadata"]["name"]
                return Flow(name, self.levels[_level_name(schema)], flow_hash(name, by))
        return Flow(CATCH_ALL, self.levels[CATCH_ALL], flow_hash(CATCH_ALL, asked.user.name))


# --- levels ---------------------------------------------------------------------------------------


def levels_of(levels: Iterable[Obj], seats: int) -> dict[str, Level]:
    """Levels by name, each with its part of the server's seats, rounded up; the last resort is always there."""
    limited: dict[str, Obj] = {}
    out: dict[str, Level] = {}
    for level in levels:
        spec, name = level["spec"], level["metadata"]["name"]
        if spec.get("type") == "Exempt":
            out[name] = Level(name, 0, exempt=True)
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
        )
    return out


def _shares(limited: Obj) -> int:
    return int(limited.get("assuredConcurrencyShares") or 1)


# --- classification -------------------------------------------------------------------------------


def _level_name(schema: Obj) -> str:
    return str(schema["spec"]["priorityLevelConfiguration"]["name"])


def _order(schema: Obj) -> tuple[int, str]:
    return (schema["spec"]["matchingPrecedence"], schema["metadata"]["name"])


def _rule_matches(names: Names, rule: Obj, asked: Asked) -> bool:
    return any(_is_subject(names, subject, asked.user) for subject in rule["subjects"]) and any(
        _is_covered(covered, asked) for covered in rule.get("resourceRules") or ()
    )


def _is_subject(names: Names, subject: Obj, user: UserInfo) -> bool:
    if subject["kind"] == "User":
        return subject["user"]["name"] in (ALL, user.name)
    if subject["kind"] == "Group":
        return subject["group"]["name"] == ALL or subject["group"]["name"] in user.groups
    account = subject["serviceAccount"]
    if account["name"] == ALL:
        return user.name.startswith(names.service_account_user(account["namespace"], ""))
    return user.name == names.service_account_user(account["namespace"], account["name"])


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
    """64 bits that tell a flow from others (apf_controller.go, hashFlowID)."""
    return int.from_bytes(sha256(f"{schema}\0{distinguisher}".encode()).digest()[:8], "little")


def deal(flow: int, deck: int, hand: int) -> list[int]:
    """Different cards of a deck, as the hash of a flow deals them: two flows seldom have one hand."""
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
    """A list: a seat for each hundred objects that it has to look at.  limit 0: all of them."""
    page = min(limit, stored) if limit else stored
    if cached:
        looked_at = stored
    else:
        looked_at = stored + page if selects else 2 * page
    return Work(min(max(1, -(-looked_at // OBJECTS_PER_SEAT)), seats_max))


def write_work(watches: int, seats_max: int) -> Work:
    """A write: its events cost more, the more watches see them."""
    if watches < WATCHES_PER_SEAT:
        return Work()
    wanted = -(-watches // WATCHES_PER_SEAT)
    final = min(wanted, seats_max)
    return Work(1, final, wanted * EVENT_US // final)
