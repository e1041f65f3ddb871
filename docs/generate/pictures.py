"""Draws the pictures of the written pages, from runs.  They are kept beside the pages.

python -m docs.generate.pictures
"""

from __future__ import annotations

from pathlib import Path

from docs.generate.museum import FOLDER as INCIDENTS
from sim import Lab
from sim.app.checked import checked_plan

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
    "preemption-storm": "10m",
    "rollout-loses-requests": "6m",
}


def draw_pictures() -> None:
    """Run the scenarios and the incidents, and write their pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, duration in PICTURES.items():
        _draw(name, duration, FOLDER / f"{name}.svg")
    for file in sorted(INCIDENTS.glob("*.yaml")):
        _draw(file.stem, f"{checked_plan(file).duration_us}us", FOLDER / f"incident-{file.stem}.svg")


def _draw(scenario: str, duration: str, file: Path) -> None:
    with Lab(scenario=scenario) as lab:
        lab.run(duration)
        lab.timeline().save(file)


if __name__ == "__main__":
    draw_pictures()
