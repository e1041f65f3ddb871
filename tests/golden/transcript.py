"""Golden transcripts: what happens in a small story, as text that a reviewer reads.

    python -m tests.golden.transcript            write all transcripts again
    python -m tests.golden.transcript NAME ...   write some of them again

Turns a scenario file of `stories` into the text beside it: from the first step of its timeline on,
each write with the fields that it changed, each decision, step, placement of a pod, failed sync and
start or end of a process, with its time, its process, and the line of its cause.  A change of
behaviour is then a change of a text, which is committed only with an explanation of every line.

Holds: a transcript depends on the run alone.  Generated parts of names and uids are numbered in
order of appearance, and times within objects are left out, so that an additional random draw
elsewhere changes no line.  Lease renewals and heartbeats without news are left out.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trio

from sim import load
from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.app.inspect.traces import records
from sim.app.run import run_plan
from sim.kernel import Record
from sim.report.story import tell, who

FOLDER = Path(__file__).with_name("stories")
# Records of a write's own effect are part of its lines; connections and loads are not of a story.
SHOWN = ("write", "decision", "schedule", "zone", "actor", "step", "step-end", "command", "sync-error")
# Fields that hold a time, a user or a revision.
NOISE = re.compile(
    r"metadata\.(uid|resourceVersion|creationTimestamp|generation|selfLink)|.*(Time|Timestamp|renewTime)|.*(At|ID)|"
    # what admission and defaults give to every pod, and names that the path holds already
    r".*kube-api-access.*|.*(terminationMessage|imagePull)Policy|.*terminationMessagePath|.*[sS]erviceAccount(Name)?|"
    r".*(dnsPolicy|enableServiceLinks|preemptionPolicy|schedulerName|securityContext|restartPolicy)|"
    r".*tolerations\[node\.kubernetes\.io/(not-ready|unreachable)\].*|.*\]\.(name|type|key)"
)
GENERATED = re.compile(
    r"(?<=-)([bcdf-hj-np-tv-xz2456789]{5}|[bcdf-hj-np-tv-xz2456789]{8,10})(?=$|[-/\"':,. )\]])"
)
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
EVENT_NAME = re.compile(r"(events/\S+?)\.[0-9a-f]{16}")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
WIDTH = 160


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of an object with their paths; elements of lists are named by name or type."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from flat(value[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            named = (
                item.get("type") or item.get("name") or item.get("key") if isinstance(item, dict) else None
            )
            yield from flat(item, f"{path}[{named or index}]")
    elif not NOISE.fullmatch(path):
        yield path, value


def differences(change: Change) -> list[str]:
    """The fields that a change set, changed or removed, a line each; none for a deletion."""
    if change.deleted:
        return []
    before = dict(flat(change.prev.obj)) if change.prev is not None else {}
    after = dict(flat(change.item.obj))
    lines = []
    for path in sorted({*before, *after}):
        if path in ("apiVersion", "kind", "metadata.name", "metadata.namespace"):
            continue
        if path not in after:
            lines.append(f"- {path}")
        elif path not in before:
            lines.append(f"+ {path} = {_short(after[path])}")
        elif before[path] != after[path]:
            lines.append(f"  {path} = {_short(after[path])}  (was {_short(before[path])})")
    return lines


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text.replace("\n", "\\n")


def effect(change: Change) -> list[str]:
    """What to print of a write: the differences, or of an Event its reason, object and message."""
    obj = change.item.obj
    if change.deleted:
        return []
    if obj.get("kind") == "Event" or "involvedObject" in obj:
        about = obj.get("involvedObject") or {}
        count = f" (times {obj['count']})" if obj.get("count", 1) > 1 else ""
        return [
            f"{obj.get('type')} {obj.get('reason')} of {about.get('kind')} {about.get('name')}: "
            f"{_short(obj.get('message', ''))}{count}"
        ]
    if change.prev is None and "status" in obj:
        obj = {key: value for key, value in obj.items() if key != "status"}
    return differences(change)


class Names:
    """Gives generated parts of names and uids a number in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def stable(self, text: str) -> str:
        """The text with numbers in place of what is drawn at random."""
        text = STAMP.sub("<time>", EVENT_NAME.sub(r"\1", text))
        text = UID.sub(lambda found: self._number(found[0], "uid"), text)
        return GENERATED.sub(lambda found: self._number(found[0], ""), text)

    def _number(self, word: str, prefix: str) -> str:
        return self._numbers.setdefault(word, f"<{prefix}{len(self._numbers) + 1}>")


async def _run(story: Path, trace: Path) -> dict[int, Change]:
    """Run a story; returns its changes by the number of their write's record."""
    changes: dict[int, Change] = {}

    def see(change: Change) -> None:
        changes[change.cause] = change

    def prepare(cluster: Cluster) -> None:
        cluster.storage.store.subscribe("/", see)

    result = await run_plan(load(story), trace_file=trace, prepare=prepare, picture=False)
    assert result.ok, [verdict for verdict in result.verdicts if not verdict.ok]
    return changes


def transcript(story: Path) -> str:
    """The transcript of a story."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "story.trace"
        changes = trio.run(_run, story, trace)
        found = list(records(trace))
    return "\n".join(_lines(found, changes)) + "\n"


def _lines(found: list[Record], changes: dict[int, Change]) -> Iterator[str]:
    begin = next(record.ident for record in found if record.kind == "step")
    start_us = found[begin - 1].at_us
    names, numbers = Names(), dict[int, int]()
    causes = {record.ident: record.cause for record in found}
    for record in found[begin - 1 :]:
        if record.kind not in SHOWN:
            continue
        body: list[str] = []
        if record.kind == "write":
            change = changes.get(record.ident)
            body = [] if change is None else effect(change)
            if not body and (change is None or not change.deleted):
                continue  # a renewal, or a report without news
        number = numbers[record.ident] = len(numbers) + 1
        cause = record.cause
        while cause and cause not in numbers:
            cause = causes.get(cause, 0)
        because = f" <- {numbers[cause]}" if cause else ""
        head = f"{number:>3} {(record.at_us - start_us) / 1e6:9.3f}s {who(record)}: {tell(record)}{because}"
        yield names.stable(head)[:WIDTH]
        for line in body:
            yield names.stable(f"                 {line}")[:WIDTH]


def stories() -> list[Path]:
    """The scenario files of all stories, sorted."""
    return sorted(FOLDER.glob("*.yaml"))


def main(arguments: list[str]) -> int:
    """Write the transcripts of the named stories, or of all, again."""
    known = {story.stem: story for story in stories()}
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no story is named {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in arguments or known:
        text = transcript(known[name])
        known[name].with_suffix(".txt").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
