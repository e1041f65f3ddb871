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
    have, taken, counted = node.allocatable, node.requested, node.scoring
    load = (have.cpu, have.memory, taken.cpu, taken.memory, counted.cpu, counted.memory)
    known = template.demand.scores
    score = known.get(load)
    if score is None:
        if len(known) >= LOADS_MAX:
            known.clear()
        score = known[load] = profile.score_room(template, node)
    return score


def room_on(profile: Profile, template: Template, node: NodeInfo) -> Status | int:
    """Return why the node has no room for the pod, or its score."""
    room: Status | int | None = node.rooms.get(template.demand)
    if room is None:
        room = profile.filter_room(template, node) or room_score(profile, template, node)
        node.rooms[template.demand] = room
    return room
