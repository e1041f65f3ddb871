"""The HTTP front under hostile requests: bounds, refusals in upstream's form, one log line for a
defect.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from actors.apiserver.handlers import Handlers
from sim import remembered
from sim.api import status
from sim.api.kinds.common.resources import pages
from sim.wire.http import documents
from sim.wire.http.chain import threads as conversions
from sim.wire.http.forms import rendering
from sim.wire.http.forms.yaml_json import NODES_MAX
from tests.actor.test_http import JSON, MAPS, N, config_map, served
from tests.unit.sim.api.messages.test_protobuf import body, put

YAML = {"Content-Type": N.media_yaml}
PROTOBUF = {"Content-Type": N.media_protobuf}
MERGE = {"Content-Type": N.media_merge_patch}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (YAML, b"a:\n" + b"- 1\n" * (2 * NODES_MAX)),
        (YAML, b"a: [" + b"1," * (2 * NODES_MAX) + b"]"),
        (YAML, b"a:\n" + b"".join(b"- &a%d x\n" % n for n in range(2 * NODES_MAX))),
        (JSON, b"[" + b"1," * NODES_MAX + b"1]"),
        (JSON, json.dumps({"data": {f"k{n}": "" for n in range(NODES_MAX + 1)}}).encode()),
        (PROTOBUF, body("v1", "ConfigMap", put(99, 1) * 150_001)),
    ],
)
async def test_body_of_too_many_values_is_refused_with_413(content: dict[str, str], text: bytes) -> None:
    async with served() as (_, client):
        refused = await client.post(MAPS, content=text, headers=content)
        assert refused.status_code == 413
        assert refused.json()["reason"] == "RequestEntityTooLarge"


async def test_values_are_counted_outside_of_strings() -> None:
    async with served() as (_, client):
        text = json.dumps({"metadata": {"name": "a"}, "data": {"k": "[,{" * NODES_MAX}})
        for content in (JSON, YAML):
            made = await client.post(MAPS, content=text, headers={**content, "User-Agent": "a"})
            assert made.status_code == 201
            await client.delete(f"{MAPS}/a")


async def test_large_body_is_converted_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    run = conversions.trio.to_thread.run_sync

    async def seen(convert: Any, *, limiter: Any) -> Any:
        sizes.append(limiter.total_tokens)
        return await run(convert, limiter=limiter)

    monkeypatch.setattr(conversions.trio.to_thread, "run_sync", seen)
    async with served() as (_, client):
        assert (await client.post(MAPS, json=config_map("a"))).status_code == 201
        assert sizes == []
        large = {**config_map("b"), "data": {"k": "v" * conversions.INLINE_MAX}}
        assert (await client.post(MAPS, json=large)).status_code == 201
        assert sizes == [1]


async def test_long_list_is_printed_as_yaml_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    dump = rendering.dump_yaml

    def seen(value: Any) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return dump(value)

    monkeypatch.setattr(rendering, "dump_yaml", seen)
    async with served() as (_, client):
        for count in (1, 20):
            for n in range(count):
                await client.post(MAPS, json=config_map(f"a{n}"))
            listed = await client.get(MAPS, headers={"Accept": N.media_yaml})
            assert listed.text.count("name: a") == count
        assert threads == [True, False]


async def test_openapi_document_is_made_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    page = documents.openapi_page

    def seen(*arguments: Any, **more: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return page(*arguments, **more)

    monkeypatch.setattr(documents, "openapi_page", seen)
    async with served() as (_, client):
        for path in ("/openapi/v2", "/openapi/v3"):
            assert (await client.get(path)).status_code == 200
    assert threads == [False, False]


@pytest.mark.parametrize("accept", [f"{N.media_protobuf}, */*", f"{N.media_protobuf},{N.media_json}", "*/*"])
@pytest.mark.parametrize("path", ["/version", "/"])
async def test_document_without_a_kind_is_json_for_any_accept_header(path: str, accept: str) -> None:
    async with served() as (_, client):
        answer = await client.get(path, headers={"Accept": accept})
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
        assert answer.json()


@pytest.mark.parametrize("size", ["huge", "", "0", "1m", "-2Mi", "3Mi"])
def test_limit_that_fills_no_pages_of_a_size_is_invalid(size: str) -> None:
    (error,) = pages(f"hugepages-{size}", "4Mi", "limits")
    assert error.detail == f"4Mi is not positive integer multiple of hugepages-{size}"


def managed(text: bytes) -> bytes:
    """A ConfigMap with a record of fields that holds this text."""
    entry = put(1, "m") + put(2, "Update") + put(3, "v1") + put(6, "FieldsV1") + put(7, put(1, text))
    return body("v1", "ConfigMap", put(1, put(1, "a") + put(17, entry)))


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b'{"a":"\xff"}',
        b"{",
        b'{"f:a":' * 10_001 + b"{}" + b"}" * 10_001,
        b"[" * 10_001 + b"]" * 10_001,
    ],
)
async def test_protobuf_that_holds_no_readable_json_is_refused_with_400(text: bytes) -> None:
    async with served() as (_, client):
        refused = await client.post(MAPS, content=managed(text), headers=PROTOBUF)
        assert refused.status_code == 400
        assert refused.json()["kind"] == "Status"


@pytest.mark.parametrize("where", ["verb", "front"])
async def test_defect_of_the_server_is_one_log_line_and_upstreams_500(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(*_: Any) -> Any:
        raise ValueError("two\nlines")

    async with served() as (_, client):
        if where == "verb":
            monkeypatch.setattr(Handlers, "steps", raising)
        else:
            monkeypatch.setattr(rendering, "prepare", raising)
        with caplog.at_level(logging.ERROR):
            answer = await client.get(MAPS)
        assert (answer.status_code, answer.text) == (500, status.PANIC)
        (record,) = caplog.records
        assert "ValueError: two lines (" in record.getMessage()
        assert record.exc_info is None
        monkeypatch.undo()
        assert (await client.get(MAPS)).status_code == 200


async def test_server_keeps_no_refused_bodies_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "WEIGHT_MAX", 1_000)
    async with served() as (_, client):
        for turn in range(12):
            names = [f"a/{turn}-{n}" for n in range(500)]
            body = json.dumps({"metadata": {"name": "x", "finalizers": names}})
            assert (await client.post(MAPS, content=body, headers=JSON)).status_code == (409 if turn else 201)
        gc.collect()
        held = sum(type(found) is list and len(found) == 500 for found in gc.get_objects())
        assert held <= 3  # the stored one, and that of the last request


def _named(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


def _with_data(names: list[str]) -> dict[str, Any]:
    return {**_named(), "data": dict.fromkeys(names, "v")}


def _with_finalizers(names: list[str]) -> dict[str, Any]:
    return _named(finalizers=[f"a/{name}" for name in names])


@pytest.mark.parametrize("made", [_with_data, _with_finalizers])
@pytest.mark.parametrize(
    ("method", "media", "calls_max"),
    [
        ("POST", N.media_json, 5),
        ("PUT", N.media_json, 5),
        ("PATCH", N.media_merge_patch, 5),
        ("PATCH", N.media_strategic_patch, 6),
        ("PATCH", N.media_apply_patch, 10.5),
    ],
)
async def test_large_body_costs_few_calls_a_value(
    method: str, media: str, calls_max: float, made: Callable[[list[str]], dict[str, Any]]
) -> None:
    """Calls of Python functions on the thread that all requests share."""
    calls: Counter[str] = Counter()
    path = MAPS if method == "POST" else f"{MAPS}/a?fieldManager=m&force=true"
    if media != N.media_apply_patch:
        path = path.removesuffix("&force=true")

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("sim.api."):
            calls[frame.f_code.co_qualname] += 1

    async with served() as (_, client):
        totals = []
        for values in (1_000, 3_000):
            # not those of another test, which caches still have
            names = [f"{made.__name__[6:]}{calls_max}-{values}-{n}" for n in range(values)]
            if method != "POST":
                body = json.dumps({"metadata": {"name": "a"}, "data": {"k": "v"}})
                assert (await client.post(MAPS, content=body, headers=JSON)).status_code == 201
            calls.clear()
            text = json.dumps(made(names))
            sys.setprofile(count)
            try:
                answer = await client.request(method, path, content=text, headers={"Content-Type": media})
            finally:
                sys.setprofile(None)
            assert answer.is_success, answer.text
            totals.append(calls.total())
            await client.patch(f"{MAPS}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
            await client.delete(f"{MAPS}/a")
        assert (totals[1] - totals[0]) / 2_000 <= calls_max, calls.most_common(9)


async def test_json_patch_of_too_many_operations_is_refused_unread_with_their_number() -> None:
    operations = [{"op": "test", "path": "/data", "value": None}] * NODES_MAX
    headers = {"Content-Type": N.media_json_patch}
    async with served() as (_, client):
        await client.post(MAPS, json={"metadata": {"name": "a"}})
        refused = await client.patch(f"{MAPS}/a", content=json.dumps(operations), headers=headers)
        assert (refused.status_code, refused.json()["reason"]) == (413, "RequestEntityTooLarge")
        assert refused.json()["message"].endswith(f"in a JSON patch is 10000, got {NODES_MAX}")
        broken = await client.patch(f"{MAPS}/a", content=json.dumps(operations)[:-1], headers=headers)
        assert broken.status_code == 413
