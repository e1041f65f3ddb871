"""Draws candidates: a scenario document with concrete steps, at random or from earlier ones.

A candidate is the document of the ground, with steps after its own: each is an entry of the palette
with its targets, parameters, time and duration chosen.  A change of a candidate adds, removes,
repeats, moves or redraws steps, or takes steps of another one.

Holds: a candidate is a function of the ground, the random generator and the candidates that it is
made from; no more faults than allowed are active at the same time, and none in the quiet time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import exp, log
from random import Random
from typing import Any

import msgspec

from sim.app.hunt.ground import Ground
from sim.app.hunt.judging import without_programs
from sim.errors import InputError
from sim.faults.shared.kinds import Ends, StepKind
from sim.patterns import pattern
from sim.scenario.actions import KINDS
from sim.scenario.compile import compile_plan, plan_step
from sim.scenario.plan.arrivals import VARIED
from sim.scenario.plan.hunting import rounded, with_values
from sim.scenario.plan.plan import ClusterPlan, PaletteStep, Plan
from sim.scenario.read.settings import override
from sim.scenario.read.source import Document
from sim.units import MS, SECOND, format_duration, parse_duration_us

TRIES = 20  # to draw a step that the cluster can have, at a time that is free
NEAR_SHARE = 0.4  # of the steps that are drawn near another one
NEAR_US = (10 * MS, 60 * SECOND)
ORDERS_TRIED_MAX = 24  # all orders of arrival of four names
SEEDS = 3  # of candidates: some, so that runs with the same beginning can share it
CHANGES_MAX = 3  # of one candidate
EVEN_OPTIONS = 4  # draws of the values of a step, of which the one that was drawn least is taken
KEPT_MAX = 2  # steps of an earlier candidate among new ones
VARIED_SHARE = 0.5  # of the values that differ from those of the file
_ZERO_END = pattern(r"(?<=[hm])0[ms](?:0s)?$")
Step = dict[str, Any]
Group = list[Step]
"""A drawn step, and the one that follows it, if any."""


class Drawing:
    """Draws the candidates of a ground."""

    def __init__(self, ground: Ground, *, evenly: bool = False) -> None:
        """evenly: True draws rather what was drawn seldom before"""
        self.ground = ground
        self._options = EVEN_OPTIONS if evenly else 1
        self._uses: Counter[str] = Counter()  # of steps without their times
        self._hunt = ground.hunt
        self._last_us = ground.hunt.from_us + ground.hunt.for_us
        self._plans: dict[bytes, Plan] = {}
        self._names = {str(step.get("name")) for step in ground.document["spec"].get("timeline", ())}

    def blank(self, seed: int) -> dict[str, Any]:
        """The ground under one of the seeds of candidates, without a drawn step."""
        document = deepcopy(dict(self.ground.document))
        document["spec"]["seed"] = int(self.ground.document["spec"].get("seed", 0)) + seed
        return document

    def ordered(self) -> list[dict[str, Any]]:
        """The ground in each order of arrival, if they are few enough to try all of them."""
        orders = self._hunt.vary.get(VARIED, ())
        documents = [self.blank(0) for _ in orders if len(orders) <= ORDERS_TRIED_MAX]
        for document, order in zip(documents, orders, strict=False):
            _vary(document, VARIED, order)
        return documents

    def fresh(self, random: Random, *, most: bool = False) -> dict[str, Any]:
        """A candidate that is drawn without regard to others.

        most: with as many steps as there may be, so that a run tries as much as it can: what a
            failure does not need is left out when it is made smaller
        """
        document = self.blank(random.randrange(SEEDS))
        for key, values in self._hunt.vary.items():
            if random.random() < VARIED_SHARE:
                _vary(document, key, random.choice(values))
        groups: list[Group] = []
        for _ in range(self._hunt.steps[1] if most else random.randint(*self._hunt.steps)):
            self._add(document, groups, random)
        return self._with(document, groups)

    def continued(self, parent: Mapping[str, Any], random: Random) -> dict[str, Any]:
        """A candidate that keeps a step or two of another one, among as many new ones as there may
        be: what else happens beside what showed something new.
        """
        document = deepcopy(dict(parent))
        groups = self._groups(document)
        groups = random.sample(groups, min(len(groups), random.randint(1, KEPT_MAX)))
        if random.random() < 0.5:
            random.choice((self._move, self._stretch, self._redraw))(document, groups, random)
        return self._filled(document, groups, random)

    def _filled(self, document: dict[str, Any], groups: list[Group], random: Random) -> dict[str, Any]:
        """The document with these steps and new ones, as many as there may be."""
        for _ in range(self._hunt.steps[1] - len(groups)):
            self._add(document, groups, random)
        return self._with(document, groups)

    def changed(self, parent: Mapping[str, Any], other: Mapping[str, Any], random: Random) -> dict[str, Any]:
        """A candidate that is made from another one, and perhaps from steps of a third."""
        document = deepcopy(dict(parent))
        groups = self._groups(document)
        for _ in range(random.randint(1, CHANGES_MAX)):
            change = random.choice(
                (self._add, self._remove, self._move, self._move, self._redraw, self._repeat, self._stretch)
            )
            change(document, groups, random)
        if random.random() < 0.2:
            taken = self._groups(other)
            for group in random.sample(taken, min(len(taken), random.randint(1, 2))):
                self._keep(groups, group)
        if random.random() < 0.1:
            document["spec"]["seed"] = self.blank(random.randrange(SEEDS))["spec"]["seed"]
        if self._hunt.vary and random.random() < 0.2:
            key = random.choice([*self._hunt.vary])
            _vary(document, key, random.choice(self._hunt.vary[key]))
        return self._filled(document, groups, random)

    def _groups(self, document: Mapping[str, Any]) -> list[Group]:
        """The drawn steps of a candidate, each with what follows it."""
        groups: list[Group] = []
        for step in document["spec"]["timeline"][self.ground.own_steps :]:
            if "at" in step:
                groups.append([deepcopy(step)])
            else:
                groups[-1].append(deepcopy(step))
        return groups

    def _with(self, document: dict[str, Any], groups: list[Group]) -> dict[str, Any]:
        """The document with these drawn steps, in the order of their times, each with a name."""
        spec = document["spec"]
        taken = self._names | {step["name"] for group in groups for step in group if "name" in step}
        seen: set[str] = set()
        for group in groups:
            if group[0].get("name") in (None, *seen):
                kind, number = _kind(group[0]).name, 1
                while f"{kind}-{number}" in taken:
                    number += 1
                group[0]["name"] = f"{kind}-{number}"
                taken.add(group[0]["name"])
            name = group[0]["name"]
            seen.add(name)
            for step in group[1:]:
                step["name"], step["after"] = f"{name}-then", name
        groups.sort(key=_at_us)
        own = spec.get("timeline", ())[: self.ground.own_steps]
        spec["timeline"] = [*own, *(step for group in groups for step in group)]
        return document

    # --- changes ----------------------------------------------------------------------------------

    def _add(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        palette = self._hunt.palette
        weights = [entry.weight for entry in palette]
        self._drawn(document, groups, random, palette, weights, None)

    def _remove(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        if groups:
            groups.pop(random.randrange(len(groups)))

    def _move(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        if not groups:
            return
        group = groups.pop(random.randrange(len(groups)))
        moved = deepcopy(group)
        if random.random() < 0.5:
            us = _log_uniform(random, *NEAR_US) * random.choice((-1, 1))
            at_us = min(max(_at_us(group) + us, self._hunt.from_us), self._last_us)
            moved[0]["at"] = shown(round(at_us, -3))
        else:
            moved[0]["at"] = shown(self._time(groups, random, 0))
        if not self._keep(groups, moved):
            groups.append(group)

    def _redraw(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        """Draw other targets and parameters for a step."""
        if not groups:
            return
        group = groups.pop(random.randrange(len(groups)))
        entries = [one for one in self._hunt.palette if one.kind == _kind(group[0]).name]
        count = len(groups)
        if entries:
            self._drawn(document, groups, random, entries, [one.weight for one in entries], _at_us(group))
        if len(groups) == count:
            groups.append(group)

    def _repeat(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        """Let a step occur once more, at another time."""
        if groups:
            again = deepcopy(random.choice(groups))
            again[0].pop("name", None)
            again[0]["at"] = shown(self._time(groups, random, 0))
            self._keep(groups, again)

    def _stretch(self, document: Mapping[str, Any], groups: list[Group], random: Random) -> None:
        """Let a fault last longer or shorter."""
        lasting = [group for group in groups if _for_us(group[0])]
        if not lasting:
            return
        group = random.choice(lasting)
        groups.remove(group)
        other = deepcopy(group)
        us = round((_for_us(group[0]) or 0) * exp(random.uniform(-log(4), log(4))))
        _set_for(other[0], min(us, self._last_us - _at_us(group)))
        if not self._keep(groups, other):
            groups.append(group)

    # --- one step ---------------------------------------------------------------------------------

    def _drawn(
        self,
        document: Mapping[str, Any],
        groups: list[Group],
        random: Random,
        entries: Sequence[PaletteStep],
        weights: Sequence[int],
        at_us: int | None,
    ) -> None:
        """Add a step of one of the entries, if one fits within some tries."""
        plan = self._plan(document)
        for _ in range(TRIES):
            entry = random.choices(entries, weights)[0]  # by weight, however few values it has
            options = [_option(plan, random, entry) for _ in range(self._options)]
            drawn = [one for one in options if one is not None]
            if not drawn:
                continue
            step = min(drawn, key=lambda one: self._uses[_signature(one)])
            group = [step]
            if entry.then is not None:
                group.append(_following(entry.then, step, random))
            chosen_us = self._time(groups, random, _for_us(step) or 0) if at_us is None else at_us
            step["at"] = shown(chosen_us)
            left_us, lasts_us = self._last_us - chosen_us, _for_us(step)
            if lasts_us:
                _set_for(step, min(lasts_us, left_us))
            for following in group[1:]:
                following["delay"] = shown(min(parse_duration_us(following["delay"]), left_us))
            if self._keep(groups, group):
                self._uses[_signature(step)] += 1
                return

    def _time(self, groups: Sequence[Group], random: Random, for_us: int) -> int:
        """A time for a step: anywhere, or near the begin or end of another one."""
        from_us, latest_us = self._hunt.from_us, max(self._hunt.from_us, self._last_us - for_us)
        if groups and random.random() < NEAR_SHARE:
            group = random.choice(groups)
            near_us = _at_us(group) + random.choice((0, _for_us(group[0]) or 0))
            near_us += _log_uniform(random, *NEAR_US) * random.choice((-1, 1))
            return min(max(round(near_us, -3), from_us), latest_us)
        return round(round(random.uniform(from_us, latest_us)), -5)

    def _keep(self, groups: list[Group], group: Group) -> bool:
        """Add a group if it ends in time, and not too much is active at once; True if it is added."""
        spans = [self._span(one) for one in [*groups, group]]
        last_us = max(end_us for _, end_us in spans)
        most = max(sum(begin <= at_us < end for begin, end in spans) for at_us, _ in spans)
        fits = last_us <= self._last_us and most <= self._hunt.at_once
        if fits and len(groups) < self._hunt.steps[1]:
            groups.append(group)
            return True
        return False

    def _span(self, group: Group) -> tuple[int, int]:
        """The instants at which a step begins and ends; one that nothing ends lasts to the last."""
        at_us, for_us = _at_us(group), _for_us(group[0])
        if for_us is None:
            for_us = self._last_us - at_us if _kind(group[0]).ends is Ends.LATER else 0
        return at_us, at_us + max(for_us, *(parse_duration_us(step["delay"]) for step in group[1:]), 0)

    def _plan(self, document: Mapping[str, Any]) -> Plan:
        """The plan of a candidate without its steps, kept by its cluster and objects."""
        spec = {**document["spec"], "timeline": [], "expect": []}
        key = msgspec.json.encode([spec.get("cluster"), spec["objects"]])
        plan = self._plans.get(key)
        if plan is None:
            try:
                whole = {**without_programs(document), "spec": spec}
                plan = compile_plan(Document("", whole), self.ground.folder)
            except InputError:  # the varied values do not go together, which its run says
                plan = Plan("", "", 0, 0, ClusterPlan(), (), (), ())
            self._plans[key] = plan
        return plan


def _option(plan: Plan, random: Random, entry: PaletteStep) -> Step | None:
    """A step of an entry, without its time; None if its values do not go together, or not with this
    cluster.
    """
    values = {key: random.choice(members) for key, members in entry.values.items()}
    try:
        return _concrete(with_values(entry.body, values), plan, random)
    except InputError:
        return None


def _signature(step: Mapping[str, Any]) -> str:
    """What a step does, without its times."""
    kind = _kind(step)
    body = {key: value for key, value in step[kind.name].items() if key != kind.duration}
    return msgspec.json.encode([kind.name, body], order="deterministic").decode()


def _concrete(body: Step, plan: Plan, random: Random) -> Step:
    """A step of the palette with its targets and durations drawn.  Raises InputError."""
    kind = _kind(body)
    objects = [*plan.cluster.established, *plan.objects]

    def existing(plural: str) -> list[tuple[str, str]]:
        return [
            (str(one["metadata"].get("namespace", "default")), str(one["metadata"]["name"]))
            for one in objects
            if f"{one['kind'].lower()}s" == plural
        ]

    planned = plan_step({"name": "x", "at": "0s", **body}, plan.cluster, existing, {})
    action = planned.choices[0]
    entry = body[kind.name]
    if action.pick is not None:
        hosts = action.action.hosts
        picked = action.pick.of(hosts, random)
        named = picked[0] if len(picked) == 1 else picked
        if "nodes" in entry:
            entry["nodes"] = {"name": named}
        else:
            key = "actor" if "actor" in entry else "apiServer"
            entry[key] = named
            del entry["pick"]
    if action.for_us is not None:
        _set_for(body, _log_uniform(random, *action.for_us))
    return body


def _following(then: Mapping[str, Any], step: Step, random: Random) -> Step:
    """The step that follows another one, on the same nodes."""
    following = deepcopy(dict(then))
    low, _, high = str(following.get("delay", "0s")).partition("..")
    span = parse_duration_us(low), parse_duration_us(high or low)
    following["delay"] = shown(parse_duration_us(rounded(_log_uniform(random, *span))))
    body = following[_kind(following).name]
    if "nodes" in body:
        body["nodes"] = deepcopy(step[_kind(step).name]["nodes"])
    return following


def _kind(step: Mapping[str, Any]) -> StepKind:
    return next(kind for kind in KINDS.values() if kind.name in step)


def _at_us(group: Group) -> int:
    return parse_duration_us(group[0]["at"])


def _for_us(step: Mapping[str, Any]) -> int | None:
    """How long the effect of a step lasts; None if it has no end that the step says."""
    kind = _kind(step)
    text = step.get("for") or (step[kind.name].get(kind.duration) if kind.duration else None)
    return None if text is None else parse_duration_us(str(text).partition("..")[0])


def _set_for(step: Step, us: int) -> None:
    kind, text = _kind(step), shown(parse_duration_us(rounded(max(us, MS))))
    if "for" not in step and kind.duration:
        step[kind.name][kind.duration] = text
    else:
        step["for"] = text


def _log_uniform(random: Random, low_us: int, high_us: int) -> int:
    """A duration of which each order of magnitude is equally likely."""
    return round(exp(random.uniform(log(max(low_us, 1)), log(max(high_us, 1)))))


def _vary(document: dict[str, Any], key: str, value: Any) -> None:
    override(Document("", document), f"{key}={msgspec.json.encode(value).decode()}")


def shown(us: int) -> str:
    """A duration as a person writes it: 2m, 1h30m, 2m5s."""
    return _ZERO_END.sub("", format_duration(us))
