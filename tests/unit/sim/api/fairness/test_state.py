"""The debugging pages of priority and fairness, and the classification of requests for paths."""

from __future__ import annotations

import pytest

from actors.apiserver.builtin.bootstrap_flows import levels, schemas
from sim.api.fairness.classification import Asked, Flow, Level, Plan, Queuing, Work
from sim.api.fairness.queues import QueueSet
from sim.api.fairness.state import FairnessState, Held, LevelState, debug_page, seat_seconds, table
from sim.api.types import Request, UserInfo
from sim.ident import NAMES
from sim.units import SECOND

N = NAMES["kubernetes"]
PLAN = Plan(N, schemas(N), levels(N), 600)
ANN = UserInfo("ann", ("system:authenticated",))
ROOT = UserInfo("root", ("system:masters",))
LEVEL = Level("busy", 1, Queuing(2, 1, 5))


@pytest.mark.parametrize(
    ("user", "verb", "path", "schema"),
    [
        (ANN, "get", "/healthz", "probes"),
        (ANN, "get", "/healthz/ping", "probes"),
        (ANN, "get", "/healthzz", "global-default"),
        (ANN, "post", "/healthz", "global-default"),
        (ANN, "get", "/version", "global-default"),
        (ROOT, "get", "/version", "exempt"),
        (UserInfo("x"), "get", "/version", "catch-all"),
    ],
)
def test_request_for_a_path_is_classified_by_non_resource_rules(
    user: UserInfo, verb: str, path: str, schema: str
) -> None:
    assert PLAN.flow(Asked(user, verb, "", "", "", path)).schema == schema


def test_flow_knows_the_objects_that_it_comes_from() -> None:
    given = [
        [
            {**obj, "metadata": {**obj["metadata"], "uid": f"{kind}-{obj['metadata']['name']}"}}
            for obj in objects
        ]
        for kind, objects in (("schema", schemas(N)), ("level", levels(N)))
    ]
    flow = Plan(N, given[0], given[1], 600).flow(Asked(ANN, "get", "", "pods", "a"))
    assert (flow.schema_uid, flow.level.uid) == ("schema-global-default", "level-global-default")
    assert flow.distinguisher == "ann"


def state() -> FairnessState:
    queues = QueueSet(1, LEVEL.queuing)
    work = Work(1, 2, 5000)
    for number in (1, 2):
        queues.arrive(number, 1, work, 0)
    queues.start_next(0)
    request = Request(
        verb="get", resource="pods", namespace="a", name="p", subresource="status", user=UserInfo("ann")
    )
    flow = Flow("s", LEVEL, 1, "ann")
    held = {number: Held(request, flow, work, 1_500_000) for number in (1, 2)}
    found = LevelState(LEVEL, tuple(queues.states()), queues.executing, queues.in_use)
    exempt = LevelState(Level("exempt", 0, exempt=True))
    return FairnessState((found, exempt), held, {}, {}, {})


def test_page_of_levels_has_upstreams_columns() -> None:
    assert debug_page("dump_priority_levels", {}, state(), 0) == (
        "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests\n"
        "busy,              1,            false,  false,       1,               1\n"
        "exempt,            <none>,       <none>, <none>,      <none>,          <none>\n"
    )


def test_level_is_idle_while_nothing_waits_or_runs() -> None:
    (busy, _) = state().levels
    empty = QueueSet(1, LEVEL.queuing)
    cases = (
        LevelState(LEVEL, tuple(empty.states()), (), 0),
        LevelState(LEVEL, busy.queues, (), 0),
        LevelState(LEVEL, tuple(empty.states()), (1,), 1),
    )
    page = debug_page("dump_priority_levels", {}, FairnessState(cases, {}, {}, {}, {}), 0)
    assert page is not None
    assert [line.split(",")[2].strip() for line in page.splitlines()[1:]] == ["true", "false", "false"]


def test_page_of_queues_has_a_row_for_each_queue() -> None:
    page = debug_page("dump_queues", {}, state(), 0)
    assert page is not None
    rows = [[cell.strip() for cell in line.split(",")] for line in page.splitlines()]
    assert rows[0][-4:] == ["NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"]
    assert [row[:5] for row in rows[1:]] == [
        ["busy", "0", "0", "0", "0"],
        ["busy", "1", "1", "1", "2"],
        ["exempt", *["<none>"] * 4],
    ]
    assert rows[2][6:] == ["1", "2", "0.01300000ss"]


def test_page_of_requests_has_details_only_if_they_are_wanted() -> None:
    page = debug_page("dump_requests", {}, state(), 10 * SECOND)
    assert page is not None
    row = [cell.strip() for cell in page.splitlines()[1].split(",")]
    assert row == ["busy", "s", "1", "0", "ann", "1970-01-01T00:00:11.5Z", "1", "2", "5ms"]
    page = debug_page("dump_requests", {"includeRequestDetails": "1"}, state(), 0)
    assert page is not None
    row = [cell.strip() for cell in page.splitlines()[1].split(",")]
    assert row[9:] == ["ann", "get", "/api/v1/namespaces/a/pods/p/status", "a", "p", "v1", "pods", "status"]
    assert "FlowDistingsher" in page.splitlines()[0]


def test_unknown_page_is_none() -> None:
    assert debug_page("dump", {}, state(), 0) is None


def test_columns_are_at_least_eight_wide_and_the_last_is_not_padded() -> None:
    assert table([["a", "b"], ["ccccccccc", "d"]]) == "a,         b\nccccccccc, d\n"
    assert table([["a", "b"]]) == "a,      b\n"
    assert seat_seconds(123) == "0.00000123ss"


def test_rows_of_different_lengths_are_no_table() -> None:
    with pytest.raises(ValueError, match="shorter"):
        table([["a", "b", "c"], ["a", "b"]])
