"""Server-side apply by several managers, and updates between: what each applied is there, and every
field has an owner.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.sim.api.golden_api import Api, whole

PATH = "/api/v1/namespaces/golden-ns/configmaps/m"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("12")
STEPS = st.lists(
    st.tuples(st.sampled_from(["m", "n", "update", "clear"]), st.dictionaries(KEYS, VALUES), st.booleans()),
    min_size=1,
    max_size=12,
)


def owned(obj: Any) -> dict[str, set[str]]:
    """Keys of data by the manager (and operation) that owns them."""
    return {
        f"{entry['manager']} {entry['operation']}": {
            name[2:] for name in entry["fieldsV1"].get("f:data", {}) if name != "."
        }
        for entry in obj["metadata"]["managedFields"]
    }


def owners(obj: Any) -> dict[str, set[str]]:
    """A value without an owner gets the owner "before-first-apply" at the next apply."""
    recorded = bool(obj["metadata"]["managedFields"])
    return owned(obj) if recorded else {"before-first-apply": set(obj.get("data") or {})}


def keep_the_map(obj: Any, applier: str) -> bool:
    """True if another manager owns the map itself after its members are gone: the next value
    recreates it.
    """
    entries = [e for e in obj["metadata"]["managedFields"] if f"{e['manager']} {e['operation']}" != applier]
    maps = [entry["fieldsV1"].get("f:data") for entry in entries]
    return not obj.get("data") and any(one is not None and (not one or "." in one) for one in maps)


@settings(max_examples=120, deadline=None)
@given(STEPS)
@example(
    [
        ("m", {}, False),
        ("update", {"b": "2"}, False),
        ("m", {"b": "1"}, True),
        ("m", {}, False),
        ("m", {"a": "1"}, False),
    ]
)
def test_what_is_applied_is_there_and_every_field_has_an_owner(
    steps: list[tuple[str, dict[str, str], bool]],
) -> None:
    api = Api()
    live: Any = None
    for who, data, force in steps:
        if who in ("update", "clear"):
            patch = {"data": data if who == "update" else dict.fromkeys(data)}
            reply = api.ask("PATCH", f"{PATH}?fieldManager=u", patch, MERGE)
            assert reply.code == (404 if live is None else 200)
        else:
            config: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
            if data:  # an empty map has an owner of its own
                config["data"] = data
            path = f"{PATH}?fieldManager={who}&force={str(force).lower()}"
            reply = api.ask("PATCH", path, config, APPLY)
            before = {} if live is None else owners(live)
            others = {key for name, keys in before.items() if name != f"{who} Apply" for key in keys}
            disputed = {key for key in data if key in others and live["data"][key] != data[key]}
            fields = {f".data.{key}" for key in disputed}
            if data and live is not None and keep_the_map(live, f"{who} Apply"):
                fields = {".data"}
            if fields and not force:
                causes = reply.body["details"]["causes"]
                assert reply.code == 409 and {cause["field"] for cause in causes} == fields
            else:
                assert reply.ok
                now = whole(api.ask("GET", PATH))
                shown = now.get("data") or {}
                assert {key: shown.get(key) for key in data} == data
                assert owners(now).get(f"{who} Apply", set()) == set(data)
                gone = before.get(f"{who} Apply", set()) - set(data) - others
                assert not gone & shown.keys()
                assert api.ask("PATCH", path, config, APPLY).code == 200
                assert whole(api.ask("GET", PATH)) == now
        reply = api.ask("GET", PATH)
        live = whole(reply) if reply.ok else None
        if live is not None:
            everybody = {key for keys in owners(live).values() for key in keys}
            assert everybody == set(live.get("data") or {})
