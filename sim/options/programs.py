"""The options of components that run alone, besides those of their daemons in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.options.apiserver.alone import ReachFlags
from sim.options.apiserver.storage import StorageFlags
from sim.options.groups.clock import ClockFlags
from sim.options.groups.content import ContentFlags
from sim.options.groups.listening import ListenFlags
from sim.options.groups.logs import LogFlags
from sim.options.groups.secure import SchedulerSecureFlags, SecureFlags
from sim.options.node.alone import MachineSettings
from sim.options.scheduling.output import OutputFlags

ALONE: Mapping[str, tuple[type[Any], ...]] = {
    "apiserver": (ListenFlags, ReachFlags, StorageFlags, ClockFlags, LogFlags),
    "controller-manager": (SecureFlags, ContentFlags, ClockFlags, LogFlags),
    "scheduler": (SchedulerSecureFlags, OutputFlags, ContentFlags, ClockFlags, LogFlags),
    "node-agent": (MachineSettings, ClockFlags),
}
