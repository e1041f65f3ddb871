"""Prefers nodes that already hold the pod's images.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/imagelocality.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, DefaultPlugin, Reads
from actors.scheduler.pods import Template

SIZE_MIN = 23 << 20  # minThreshold: a sum of sizes up to this many bytes scores 0
CONTAINER_SIZE_MAX = 1000 << 20  # maxContainerThreshold: from this many bytes a container on, 100


class ImageLocality(DefaultPlugin):
    """Scores nodes by the size of the images that they hold; an image on few nodes counts less."""

    name = "ImageLocality"
    absolute_scores = True
    reads = Reads.NODE

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Return the score of the held images' sizes, each multiplied by the share of nodes that
        hold it.
        """
        if not node.images:
            return 0
        nodes_count = len(self.cluster.order)
        total = 0
        for name in pod.images:
            held = node.images.get(name)
            if held is not None:
                total += int(float(held[0]) * (held[1] / nodes_count))
        high = CONTAINER_SIZE_MAX * len(pod.images)
        total = min(max(total, SIZE_MIN), high)
        return MAX_SCORE * (total - SIZE_MIN) // (high - SIZE_MIN)
