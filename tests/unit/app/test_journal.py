"""The journal of a server: written as things happen, read back as far as it goes."""

from pathlib import Path

import msgspec
import pytest

from sim.app.journal import End, JournalFile, Session, read_journal
from sim.errors import InputError
from sim.kernel import Operation

OPERATIONS = [Operation(3, 10, "request", [["get"], {}, b"\xff"]), Operation(4, 20, "watch-stop", 7)]
END = End(30, 9, "ab")


def written(path: Path, session: Session = Session(nodes=2), end: End | None = END) -> Path:
    file = JournalFile(path, session, session.plan(), 5)
    for operation in OPERATIONS:
        file.append(operation)
    if end is not None:
        file.end(end)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    journal = read_journal(written(tmp_path / "j"))
    assert (journal.operations, journal.end, journal.head.epoch_us) == (OPERATIONS, END, 5)
    plan = journal.plan()
    assert ([node.name for node in plan.cluster.nodes], plan.duration_us) == (["node-0", "node-1"], 30)


def test_secrets_that_clients_sent_are_for_their_owner_alone(tmp_path: Path) -> None:
    assert written(tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_a_journal_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = written(tmp_path / "j", end=None)
    assert (journal := read_journal(path)).end is None and journal.virtual_us == 20
    path.write_bytes(path.read_bytes()[:-3])
    assert (journal := read_journal(path)).operations == OPERATIONS[:1] and journal.virtual_us == 10


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_ends_the_journal_and_not_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    written(Path("/dev/full"))
    told = "orrery: /dev/full: the journal ends here: No space left on device\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("data", [b"", b"{}", b"\x80", b"\xc1", b"hello", b"\x81\xafno_orrery_journal\x01"])
def test_what_is_no_journal_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(data)
    with pytest.raises(InputError, match="is no journal of orrery serve"):
        read_journal(path)


@pytest.mark.parametrize(
    "session", [{"naming": "bad"}, {"nodes": -1}, {"nodes": 10**9}, {"seed": -5}, {"settings": "duration=1m"}]
)
def test_a_session_that_none_can_have_asked_for_is_a_damaged_journal(
    tmp_path: Path, session: dict[str, object]
) -> None:
    head = {"orrery_journal": 1, "session": session, "epoch_us": 0, "plan": "", "program": ""}
    path = tmp_path / "j"
    path.write_bytes(msgspec.msgpack.encode(head))
    with pytest.raises(InputError, match="is no journal of orrery serve, or damaged"):
        read_journal(path)


def test_another_version_of_a_session_without_a_scenario_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "j"
    head = {"orrery_journal": 1, "session": {"nodes": 1}, "epoch_us": 0, "plan": "other", "program": ""}
    path.write_bytes(msgspec.msgpack.encode(head))
    with pytest.raises(InputError, match="the journal's session: is not what was served"):
        read_journal(path).plan()


def test_another_scenario_than_was_served_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "one.yaml"
    text = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: one}\nspec:\n  duration: 1m\n  cluster:\n    nodes: [{count: 1}]\n"
    scenario.write_text(text)
    path = written(tmp_path / "j", Session(str(scenario), nodes=1))
    moved = scenario.rename(tmp_path / "two.yaml")
    with pytest.raises(
        InputError, match=r"one\.yaml: what was served is not there any more \(--scenario FILE\)"
    ):
        read_journal(path).plan()
    assert len(read_journal(path).plan(moved).cluster.nodes) == 2
    moved.write_text(text.replace("count: 1", "count: 2"))
    with pytest.raises(InputError, match=r"two\.yaml: is not what was served"):
        read_journal(path).plan(moved)
