"""The page of trace records: their kinds are found where the sources declare them."""

from __future__ import annotations

import ast
from pathlib import Path

from docs.generate.markdown import code, page, table

ROOT = Path(__file__).parents[2]
MEANINGS = {
    "actor": "A process starts, ends, crashes, is paused or resumed.",
    "change": "The state of an object has changed in storage: the facts `before` and `after`.",
    "command": "A step asks the API for something, as `kubectl` does, and the outcome.",
    "connection": "A connection to the served API is opened or closed.",
    "decision": "A process decides something about an object, with the reason.",
    "load": "The numbers of requests of a `load` step.",
    "refused": "The API refuses a write of a user (400, 403, 422 or 500), once in ten minutes for each reason.",
    "request": "The requests of a client (a `request` step) begin to be answered, or to fail, and at which pod.",
    "rules": "The proxy of a node has written its rules: the numbers of Services and of their endpoints.",
    "schedule": "The scheduler binds a pod to a node, or the message why it cannot.",
    "step": "A step of the timeline occurs; the cause of all that follows from it.",
    "step-end": "The fault of a step ends.",
    "sync-error": "A sync of a controller fails; the key is retried later.",
    "write": "The storage commits a write of an object.",
    "zone": "The state of a zone changes: Normal, PartialDisruption or FullDisruption.",
}


def declared_records() -> dict[str, tuple[tuple[str, ...], str]]:
    """The fields of each kind of record, and the module that declares it, by name."""
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for part in ("actors", "sim"):
        for file in sorted((ROOT / part).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if ".kind(" in text:
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                for name, *fields in _declarations(ast.parse(text)):
                    found.setdefault(name, (tuple(fields), module))
    return dict(sorted(found.items()))


def _declarations(tree: ast.Module) -> list[list[str]]:
    """The texts of each call `….kernel.kind("name", "field", …)`."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "kind"
        and ast.unparse(node.func.value).endswith("kernel")
    ]
    texts = [
        [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        for call in calls
    ]
    return [each for each in texts if each]


def records_page() -> str:
    """Every kind of record with its fields."""
    rows = [
        (code(name), MEANINGS[name], ", ".join(code(field) for field in fields), code(module))
        for name, (fields, module) in declared_records().items()
    ]
    return page(
        "Trace records",
        "`orrery run --trace FILE` writes every event of a run. `orrery show FILE` prints them, `why` follows their "
        "causes, `diff` compares two files. Each record has a number, a virtual time, the number of the record that "
        "caused it (0: none), a kind, and the values of the kind:",
        table(("kind", "meaning", "values", "declared in"), rows),
        "A file describes itself: it begins with a header and declares each kind before its first record. Its blocks "
        "have checksums, so a file that was cut off or damaged is read up to that place. The SHA-256 of a run covers "
        "kinds, times, causes and values. Two runs are the same if and only if their hashes are.",
    )
