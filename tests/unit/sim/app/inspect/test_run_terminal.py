"""The small picture of a run in the terminal."""

from sim.app.inspect.run_terminal import _picture
from sim.ident import NAMES
from sim.report import Timeline
from sim.series import Series

END_US = 4_000_000


def picture(timeline: Timeline) -> dict[str, str]:
    """The rows of a picture of four columns, by their names."""
    lines = _picture(timeline, END_US, 4).plain.splitlines()
    return {line[:20].strip(): line[21:] for line in lines}


def run() -> Timeline:
    timeline = Timeline(NAMES["orch"])
    timeline.nodes[""] = {"ready": Series([(0, 3)])}
    timeline.pods["running"] = Series([(1_500_000, 6)])
    timeline.step("rollout", "patch", 2_000_000)
    return timeline


def test_run_without_clients_has_no_row_of_requests() -> None:
    assert picture(run()) == {"nodes ready": "████", "pods running": "·███", "steps": "  ▲ "}


def test_run_with_clients_shows_which_part_of_requests_was_answered() -> None:
    timeline = run()
    for second, outcome in ((1, "answered"), (2, "answered"), (2, "timed out"), (3, "refused")):
        timeline.request("default/web", outcome, second * 1_000_000)
    assert list(picture(timeline)) == ["nodes ready", "pods running", "requests answered", "steps"]
    assert picture(timeline)["requests answered"] == "·█▄ "
