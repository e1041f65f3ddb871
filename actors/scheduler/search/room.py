"""Remembers what the plugins that read the room on a node return.

Many classes of pods demand the same room, and many nodes have the same capacity and load. So the
result for a node is kept at the node by demand until the node or its pods change, and a score is
kept at the demand by load.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import Status
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.pods import Template

# Loads with a remembered score, for one demand; beyond it the memory starts again empty.
LOADS_MAX = 4_096


def room_score(profile: Profile, template: Template, node: NodeInfo) -> int:
    """Return the weighted sum of the room plugins' scores; they read CPU and memory only."""
    if not profile.is_plain:
        return profile.score_room(template, node)
    have, taken, counted = node.allocatable, node.requested, node.scoring
    load = (have.cpu, have.memory, taken.cpu, taken.memory, counted.cpu, counted.memory)
    known = template.demand.scores
    score = known.get(load)
    if score is None:
        if len(known) >= LOADS_MAX:
            known.clear()
        score = known[load] = profile.score_room(template, node)
    return score


def room_key(profile: Profile, template: Template) -> object:
    """Return the key of results for a demand: profiles without own rules share them."""
    return template.demand if profile.is_plain else (profile, template.demand)


def room_on(profile: Profile, template: Template, node: NodeInfo) -> Status | int:
    """Return why the node has no room for the pod, or its score."""
    key = room_key(profile, template)
    room: Status | int | None = node.rooms.get(key)
    if room is None:
        room = profile.filter_room(template, node) or room_score(profile, template, node)
        node.rooms[key] = room
    return room
