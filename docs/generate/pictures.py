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
}
# The styles of a picture outside of a report, as `sim.report.page` has them for a light page.
STYLE = (
    "text{fill:#1c2430;font:12px system-ui,sans-serif}.label{text-anchor:end}"
    ".small{font-size:10.5px;fill:#6b7684}.inside{fill:#fff;font-size:11px}.lane{fill:#f1efe8}"
    ".step{stroke:#6b7684;stroke-dasharray:3 3}.lasts{stroke:#c4483f;stroke-width:2.5}"
    ".over{paint-order:stroke;stroke:#fbfaf7;stroke-width:3}"
)


def draw_pictures() -> None:
    """Run the scenarios and write their pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, duration in PICTURES.items():
        with Lab(scenario=name) as lab:
            lab.run(duration)
            head, bracket, rest = lab.timeline().svg.partition(">")
        (FOLDER / f"{name}.svg").write_text(f"{head}{bracket}<style>{STYLE}</style>{rest}\n")


if __name__ == "__main__":
    draw_pictures()
