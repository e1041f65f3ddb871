"""The colours of all pictures: one colour has one meaning, in reports, studies and notebooks.

The colours are those of Okabe and Ito, and of Paul Tol where those end. People with colour
blindness can distinguish them, and each has contrast on light and on dark paper. What has no colour
of its own (settings of a sweep, zones) also differs by its dashes.
"""

from __future__ import annotations

from collections.abc import Mapping

GOOD, NOT_READY, PENDING, LOST = "#009E73", "#E69F00", "#D9C520", "#D55E00"
LEAVING, FAILED, SUCCEEDED = "#CC79A7", "#882255", "#56B4E9"
UNSCHEDULED, NO_NODE, UNSEEN = "#999933", "#8C510A", "#6E6E6E"
STARTING, NO_IMAGE, FAILING = "#C2A33A", "#EE8866", "#EE3377"
TAINT, LEADER, MEASURED, PLAIN = "#7B6FD0", "#5D8AA8", "#0072B2", "#98A2AE"

STATES: Mapping[str, str] = {
    "ready": GOOD,
    "not ready": NOT_READY,
    "unknown": LOST,
    "running": GOOD,
    "pending": PENDING,
    "pending: not scheduled yet": UNSCHEDULED,
    "pending: no node fits": NO_NODE,
    "pending: waits for its node": UNSEEN,
    "pending: starting": STARTING,
    "pending: image not pulled": NO_IMAGE,
    "pending: container fails": FAILING,
    "terminating": LEAVING,
    "failed": FAILED,
    "succeeded": SUCCEEDED,
    "available": GOOD,
    "on dead machines": LOST,
    "answered": GOOD,
    "refused": FAILED,
    "timed out": LOST,
    "cut off": LEAVING,
    "without a name": UNSEEN,
}
# Of the settings of a sweep.
SETTINGS = (MEASURED, LOST, GOOD, LEAVING, NOT_READY, SUCCEEDED, FAILED, PLAIN)
