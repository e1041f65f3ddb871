"""Draws the pictures of the written pages, from runs.  They are kept beside the pages.

python -m docs.generate.pictures
"""

from __future__ import annotations

from pathlib import Path

from sim import Lab

FOLDER = Path(__file__).parents[1] / "pictures"
# A picture by its name: a scenario that comes along, and how long it is run.
PICTURES = {
    "zone-outage": "30m",
    "single-node-death": "20m",
    "leader-failover": "10m",
    "drain-blocked": "20m",
    "flapping-node": "25m",
    "role-removed": "20m",
    "webhook-deadlock": "40m",
    "disk-of-dead-node": "25m",
    "load-balancer-wait": "30m",
    "autoscaling": "20m",
}


def draw_pictures() -> None:
    """Run the scenarios and write their pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, duration in PICTURES.items():
        with Lab(scenario=name) as lab:
            lab.run(duration)
            lab.timeline().save(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    draw_pictures()
