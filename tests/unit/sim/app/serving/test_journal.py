"""The journal of a server: written as things happen, read back as far as it goes."""

from pathlib import Path

import msgspec
import pytest

from sim.app.serving.journal import End, JournalFile, Session, read_journal
from sim.errors import InputError
from sim.kernel import MARK, NotKeptError, Operation, block
from tests.unit.sim.disks import file_size_limit

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


PLUGINS = "cluster.apiServer.flags.enable-admission-plugins"


@pytest.mark.parametrize(
    ("settings", "enabled"),
    [
        ((), "NodeRestriction"),
        ((f"{PLUGINS}=NamespaceExists",), "NamespaceExists"),
        (("cluster.apiServer.flags.disable-admission-plugins=NodeRestriction",), None),
    ],
)
def test_served_cluster_restricts_node_agents_as_kubeadm_does(
    settings: tuple[str, ...], enabled: str | None
) -> None:
    flags = Session(settings=settings).plan().cluster.api_server.flags
    assert flags.get("enable-admission-plugins") == enabled


def test_setting_counts_more_than_the_naming_of_a_server() -> None:
    settings = ("cluster.naming=orch",)
    assert Session(settings=settings, naming="kubernetes").plan().cluster.naming == "orch"


def test_secrets_that_clients_sent_are_for_their_owner_alone(tmp_path: Path) -> None:
    assert written(tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_journal_cut_off_anywhere_is_read_up_to_there_and_what_is_left_out_is_noted(tmp_path: Path) -> None:
    data = written(tmp_path / "j").read_bytes()
    ends = [at for at in range(1, len(data) + 1) if data[at : at + 4] in (MARK, b"")]
    assert len(ends) == 4
    for size in range(ends[0], len(data)):
        (tmp_path / "cut").write_bytes(data[:size])
        journal = read_journal(tmp_path / "cut")
        whole = sum(end <= size for end in ends) - 1
        assert (journal.operations, journal.end) == (OPERATIONS[:whole], None)
        left = size - ends[whole]
        text = f"its last {left} bytes are left out: the record is incomplete, after {whole} operations"
        assert journal.note == (f"{tmp_path / 'cut'}: {text}" if left else "")


def test_journal_cut_off_in_its_head_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "j")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError, match="j: is damaged or cut off in its head"):
        read_journal(path)


def test_change_of_each_byte_of_a_journal_is_reported(tmp_path: Path) -> None:
    data = written(tmp_path / "j").read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        (tmp_path / "j").write_bytes(changed)
        with pytest.raises(InputError, match=r"j: is (damaged|no journal)"):
            read_journal(tmp_path / "j")


def test_damage_in_the_middle_of_a_journal_names_its_place_and_a_remedy(tmp_path: Path) -> None:
    path = written(tmp_path / "j")
    data = path.read_bytes()
    second = [at for at in range(len(data)) if data[at : at + 4] == MARK][2]
    path.write_bytes(data[: second + 20] + b"?" + data[second + 21 :])
    with pytest.raises(InputError) as caught:
        read_journal(path)
    assert str(caught.value) == (
        f"{path}: is damaged at byte {second}, after 1 operations (truncate -s {second} FILE keeps the operations before)"
    )
    path.write_bytes(data[:second])
    assert read_journal(path).operations == OPERATIONS[:1]


def test_what_follows_the_end_of_a_journal_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "j")
    path.write_bytes(path.read_bytes() + b"garbage")
    assert (journal := read_journal(path)).end == END
    assert journal.note == f"{path}: the 7 bytes after its end are left out"


def test_zeros_at_the_end_of_a_journal_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "j", end=None)
    path.write_bytes(path.read_bytes() + bytes(500))
    assert (journal := read_journal(path)).operations == OPERATIONS
    assert "its last 500 bytes are left out" in journal.note


def test_existing_journal_is_not_replaced_unless_forced(tmp_path: Path) -> None:
    data = written(tmp_path / "j").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        written(tmp_path / "j")
    assert (tmp_path / "j").read_bytes() == data
    session = Session(nodes=3)
    JournalFile(tmp_path / "j", session, session.plan(), 5, force=True).end(END)
    assert read_journal(tmp_path / "j").operations == []


def test_operation_that_cannot_be_written_is_not_kept_and_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, session = tmp_path / "j", Session(nodes=2)
    file = JournalFile(path, session, session.plan(), 5)
    file.append(OPERATIONS[0])
    with file_size_limit(path.stat().st_size + 30), pytest.raises(NotKeptError):
        file.append(Operation(4, 20, "request", "x" * 100))
    with pytest.raises(NotKeptError):  # although there is room again: a gap cannot be replayed
        file.append(OPERATIONS[1])
    file.end(END)
    journal = read_journal(path)
    assert (journal.operations, journal.end, journal.note) == (OPERATIONS[:1], None, "")
    told = f"{path}: the journal ends here: File too large; requests that change something are refused from now on"
    assert capsys.readouterr().err == f"orrery: {told}\n"


def test_journal_of_the_format_without_checksums_is_refused_by_name(tmp_path: Path) -> None:
    head = {"orrery_journal": 1, "session": {"nodes": 1}, "epoch_us": 0, "plan": "", "program": ""}
    (tmp_path / "j").write_bytes(msgspec.msgpack.encode(head))
    with pytest.raises(InputError, match="j: is a journal of format 1; this program reads 2"):
        read_journal(tmp_path / "j")


@pytest.mark.parametrize("data", [b"", b"{}", b"\x80", b"\xc2", b"hello", b"\x81\xafno_orrery_journal\x01"])
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
    head = {"orrery_journal": 2, "session": session, "epoch_us": 0, "plan": "", "program": ""}
    path = tmp_path / "j"
    path.write_bytes(block(msgspec.msgpack.encode(head)))
    with pytest.raises(InputError, match="is no journal of orrery serve"):
        read_journal(path)


def test_another_version_of_a_session_without_a_scenario_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "j"
    head = {"orrery_journal": 2, "session": {"nodes": 1}, "epoch_us": 0, "plan": "other", "program": ""}
    path.write_bytes(block(msgspec.msgpack.encode(head)))
    with pytest.raises(InputError, match="the journal's session: has changed since the journal"):
        read_journal(path).plan()


def test_another_scenario_than_was_served_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "one.yaml"
    text = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: one}\nspec:\n  duration: 1m\n  cluster:\n    nodes: [{count: 1}]\n"
    scenario.write_text(text)
    path = written(tmp_path / "j", Session(str(scenario), nodes=1))
    moved = scenario.rename(tmp_path / "two.yaml")
    with pytest.raises(
        InputError, match=r"one\.yaml: the served scenario does not exist any more \(--scenario FILE\)"
    ):
        read_journal(path).plan()
    assert len(read_journal(path).plan(moved).cluster.nodes) == 2
    moved.write_text(text.replace("count: 1", "count: 2"))
    with pytest.raises(InputError, match=r"two\.yaml: has changed since the journal"):
        read_journal(path).plan(moved)
