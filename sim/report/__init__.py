"""Pictures of a run: the timeline and the one-file HTML report.

Everything here is made from the trace and the commits of a run, and nothing of it influences the
run.
"""

from sim.report.html import render
from sim.report.timeline import BUCKET_US, Reign, Timeline, answered_line, sparkline
from sim.report.workloads import pod_state

__all__ = ["BUCKET_US", "Reign", "Timeline", "answered_line", "pod_state", "render", "sparkline"]
