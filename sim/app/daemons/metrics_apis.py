"""The metrics APIs of the cluster of a controller manager that runs alone.

Turns the groups that an API server lists into the versions in which autoscaling asks for metrics.

Mirrors  metrics v1.25 pkg/client/custom_metrics/discovery.go (AvailableAPIsGetter);
         cmd/kube-controller-manager/app/autoscaling.go (the groups are listed again each 30 s).
Differs  the resource and the external API too are asked only while they are listed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import trio

from actors.controllers.shared.metrics_api import VERSIONS, NoMetrics
from sim.ident import Names
from sim.wire.rest.access import AccessError
from sim.wire.rest.transport import Sender

LOG = logging.getLogger(__name__)
PERIOD_S = 30.0


class ListedMetrics(NoMetrics):
    """The metrics of servers behind the API server; an API that is not listed is not found."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._listed: Mapping[str, str] = {}  # versions by group

    def elsewhere(self, group: str) -> str:
        """The preferred version of the API that is listed."""
        return self._listed.get(group, "")

    def take(self, body: Mapping[str, Any]) -> None:
        """Take the list of groups of an API server."""
        groups = {
            str(each.get("name")): {version.get("version") for version in each.get("versions") or ()}
            for each in body.get("groups") or ()
        }
        result = {}
        for group, versions in VERSIONS.items():
            served = groups.get(self._names.group(group), set())
            result[group] = next((version for version in versions if version in served), "")
        self._listed = result

    async def follow(self, sender: Sender) -> None:
        """Ask for the list, again and again."""
        while True:
            try:
                code, body = await sender.ask("GET", "/apis", None, "horizontal-pod-autoscaler")
            except AccessError as error:
                code, body = 0, {"message": str(error)}
            if code == 200:
                self.take(body)
            else:
                LOG.warning("the metrics APIs are not known: %s", body.get("message", code))
            await trio.sleep(PERIOD_S)
