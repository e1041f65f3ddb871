"""forEach: a person goes over nodes or names, a few at a time, and does the same to each.

Turns a list of targets and a list of actions into turns: each turn carries out the actions for one
target, one after the other, waits for a condition, and makes room for the next.

Holds: at most `at_once` turns are under way; an action begins when the commands of the one before
       have been carried out and its effect, if it has a known end, is over; a turn that is not done
       in its time has failed, and is reported; no turn begins after a failure unless the step says
       so; the step ends when no turn is under way and none is to begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import Nodes, Strict
from sim.scenario.actions.context import Inner, UserContext
from sim.units import format_duration

PLACE = "{name}"
WAIT = "wait"
Otherwise = Literal["stop", "continue"]


class ForEach(Strict, kw_only=True):
    """The parameters of `forEach`.  One of nodes and names is given."""

    nodes: Annotated[Nodes | UnsetType, Meta(description="The nodes, in the order of their names.")] = UNSET
    names: Annotated[
        list[str] | UnsetType,
        Meta(description="Names of anything, in place of nodes: actions and conditions say `{name}`."),
    ] = UNSET
    do: Annotated[
        list[str | dict[str, Any]],
        Meta(
            min_length=1,
            description="What is done to each, in this order: actions, as `drain` or `{reboot: {downtime: 2m}}`, which need "
            "no `nodes`; and `{wait: CONDITION}`.",
        ),
    ]
    until: Annotated[
        str, Meta(description="A condition that ends a turn, as `nodes named {name} have Ready=True`.")
    ] = ""
    at_once: Annotated[int, Meta(ge=1, le=20_000, description="How many turns are under way at a time.")] = 1
    timeout: Annotated[str, Meta(description="A turn that takes longer has failed.")] = "30m"
    otherwise: Annotated[
        Otherwise, Meta(description="After a failure: `stop`, no other turn begins, or `continue`.")
    ] = "stop"


@dataclass(frozen=True, slots=True)
class Doing:
    """One part of a turn: an action, or a condition to wait for.

    inner: the action for all targets together; None for one action for each, or for a condition
    each: the action for each target, in the order of the targets
    """

    inner: Inner | None = None
    each: tuple[Inner, ...] = ()
    wait: str = ""

    def of(self, number: int, target: str) -> Inner:
        """The action for one target."""
        if self.inner is None:
            return self.each[number]
        kind, action, for_us = self.inner
        return kind, action.only((target,)), for_us


@dataclass(frozen=True, slots=True)
class TurnsOfTargets(Action):
    """Each target gets its turn."""

    nodes: tuple[str, ...]
    at_once: int
    timeout_us: int
    otherwise: Otherwise
    parts: tuple[Doing, ...]
    until: str = ""
    picked: ClassVar[str] = "nodes"
    untraced: ClassVar[tuple[str, ...]] = ("parts",)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that turns wait for, with the first target."""
        texts = (*(part.wait for part in self.parts), self.until)
        return tuple(text.replace(PLACE, self.nodes[0]) for text in texts if text)

    def begin(self, stage: Stage, step: str) -> Undo:
        """Begin the first turns; the result lets no other begin."""
        walk = Walk(self, stage, step)
        stage.cluster.kernel.call_later(0, walk.fill)
        return walk.stop


class Walk:
    """One occurrence of the step."""

    def __init__(self, action: TurnsOfTargets, stage: Stage, step: str) -> None:
        self.action, self.stage, self.step = action, stage, step
        self.random: Random = stage.cluster.kernel.stream(f"scenario/{step}/turns")
        self._next = self._under_way = 0
        self._stopped = False

    def stop(self) -> None:
        """Begin no other turn."""
        self._stopped = True

    def fill(self, _: object = None) -> None:
        """Begin turns while there is room, and end the step after the last one."""
        targets = self.action.nodes
        while self._under_way < self.action.at_once and self._next < len(targets) and not self._stopped:
            number, self._next = self._next, self._next + 1
            self._under_way += 1
            _Turn(self, number, targets[number]).go_on()
        if not self._under_way:
            self.stage.end_step(self.step)

    def turn_over(self, failed: bool) -> None:
        """A turn is over."""
        self._under_way -= 1
        self._stopped = self._stopped or (failed and self.action.otherwise == "stop")
        self.stage.cluster.kernel.call_later(0, self.fill)


class _Turn:
    """The turn of one target."""

    def __init__(self, walk: Walk, number: int, target: str) -> None:
        self._walk, self._number, self._target = walk, number, target
        self._at, self._over, self._doing = -1, False, ""
        self._cancel: Callable[[], None] = lambda: None
        walk.stage.cluster.kernel.call_later(walk.action.timeout_us, self._expire)

    def go_on(self, problem: str = "") -> None:
        """The part before is done, or has failed: carry out the next one."""
        if self._over:
            return
        if problem:
            self._end(problem)
            return
        self._at += 1
        walk = self._walk
        parts = walk.action.parts
        if self._at > len(parts):
            self._end("")
        elif self._at == len(parts):
            self._wait(walk.action.until)
        elif parts[self._at].wait:
            self._wait(parts[self._at].wait)
        else:
            kind, action, for_us = parts[self._at].of(self._number, self._target)
            self._doing = kind
            span_us = None if for_us is None else walk.random.randint(*for_us)
            name = f"{walk.step}/{self._number + 1}/{self._at + 1}-{kind}"
            walk.stage.act(name, kind, action, span_us, self.go_on)

    def _wait(self, condition: str) -> None:
        if not condition:
            self.go_on()
            return
        self._doing = condition.replace(PLACE, self._target)
        self._cancel = self._walk.stage.when(self._doing, partial(self.go_on, ""))

    def _expire(self, _: object) -> None:
        if not self._over:
            took = format_duration(self._walk.action.timeout_us)
            self._end(f"not done after {took}: {self._doing}")

    def _end(self, problem: str) -> None:
        self._over = True
        self._cancel()
        walk = self._walk
        if problem:
            admin, rest = walk.stage.cluster.admin, len(walk.action.nodes) - self._number - 1
            left = f"; the step stops with {rest} left" if walk.action.otherwise == "stop" and rest else ""
            admin.note(walk.step, self._target, f"{problem}{left}")
        walk.turn_over(bool(problem))


def _check(context: UserContext, given: ForEach) -> TurnsOfTargets:
    if isinstance(given.nodes, UnsetType) == isinstance(given.names, UnsetType):
        raise context.error("", "goes over either nodes or names", "give one of 'nodes' and 'names'")
    targets = context.nodes(given.nodes) if isinstance(given.nodes, Nodes) else tuple(_names(context, given))
    of_nodes = isinstance(given.nodes, Nodes)
    parts = tuple(_part(context, one, index, targets, of_nodes) for index, one in enumerate(given.do))
    timeout_us = context.positive(given.timeout, "timeout")
    return TurnsOfTargets(targets, given.at_once, timeout_us, given.otherwise, parts, given.until)


def _names(context: UserContext, given: ForEach) -> list[str]:
    names = [] if isinstance(given.names, UnsetType) else given.names
    if not names:
        raise context.error("names", "the list is empty")
    return names


def _part(
    context: UserContext, entry: str | Mapping[str, Any], index: int, targets: tuple[str, ...], of_nodes: bool
) -> Doing:
    """One entry of `do`."""
    key = ("do", index)
    whole: dict[str, Any] = {entry: {}} if isinstance(entry, str) else dict(entry)
    lasts = whole.pop("for", None)
    if len(whole) != 1:
        raise context.error(key, "an entry has exactly one action, or 'wait'", "as {reboot: {downtime: 2m}}")
    ((name, body),) = whole.items()
    if name == WAIT:
        if not isinstance(body, str) or not body or lasts is not None:
            raise context.error(
                key, "'wait' is a condition", 'as {wait: "nodes named {name} have Ready=True"}'
            )
        return Doing(wait=body)
    if context.acts_on_nodes(name, key) and of_nodes:
        if "nodes" in body:
            raise context.error(key, f"{name!r} acts on the node of the turn", "leave 'nodes' out")
        return Doing(context.inner(name, {"nodes": {"name": list(targets)}, **body}, lasts, key))
    if PLACE not in str(body):
        raise context.error(key, f"{name!r} does the same for each", f"say {PLACE} where the name belongs")
    bodies = [_filled(body, target) for target in targets]
    return Doing(each=tuple(context.inner(name, one, lasts, key) for one in bodies))


def _filled(value: Any, target: str) -> Any:
    """A value with the name of a target in its texts."""
    if isinstance(value, Mapping):
        return {key: _filled(one, target) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, target) for one in value]
    return value.replace(PLACE, target) if isinstance(value, str) else value


KIND = StepKind(
    name="forEach",
    parameters=ForEach,
    check=_check,
    ends=Ends.ITSELF,
    documentation="""
A person goes over nodes or names, one or some at a time, does the same to each, and waits for a condition before the next: a
rolling upgrade. An action begins when the one before is done: its requests are answered, a drain is over, a reboot or an effect
with `for` has ended. A turn fails if a drain runs out of its time, or if it is not done within `timeout`: that is reported,
and the step stops or continues. `end of NAME` is when the last turn is over.""",
    example="""
- {at: 2m, name: turn, forEach: {nodes: {zone: a}, do: [drain, reboot, uncordon], until: "nodes named {name} have Ready=True"}}
- {after: end of turn, forEach: {nodes: {zone: b}, atOnce: 2, timeout: 10m, otherwise: continue, do: [{drain: {timeout: 5m}}, uncordon]}}
- {at: 9m, forEach: {names: [web], do: [{scale: {resource: deployments, name: "{name}", replicas: 3}}, {wait: "deployments named {name} have status.replicas=3"}]}}""",
)
