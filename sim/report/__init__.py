"""Pictures of a run: the timeline and the one-file HTML report."""

from sim.report.html import render
from sim.report.timeline import BUCKET_US, Reign, Timeline, sparkline
from sim.report.workloads import pod_state

__all__ = ["BUCKET_US", "Reign", "Timeline", "pod_state", "render", "sparkline"]
