"""Trace files read back: whole, cut off, damaged, foreign, growing."""

from __future__ import annotations

import re
from pathlib import Path

import msgpack
import pytest

from sim.kernel import Decoder, Trace, TraceError, read, read_header
from sim.kernel.blocks import MARK
from sim.kernel.trace.records import BATCH, IN_SERIES


def written(path: Path, number: int = 3) -> bytes:
    trace = Trace(path, {"seed": 9})
    kind = trace.kind("write", "key", "rev")
    for rev in range(number):
        trace.add(kind, rev * 10, rev, ("some key", rev))
    trace.close()
    return path.read_bytes()


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        list(read(path))
    return str(caught.value).removeprefix(f"{path} ")


def test_a_file_that_was_closed_reads_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path / "t")
    assert [(r.ident, r.at_us, r.cause, dict(r.values)) for r in read(tmp_path / "t")] == [
        (1, 0, 0, {"key": "some key", "rev": 0}),
        (2, 10, 1, {"key": "some key", "rev": 1}),
        (3, 20, 2, {"key": "some key", "rev": 2}),
    ]
    assert read_header(tmp_path / "t")["seed"] == 9


def test_a_file_cut_off_anywhere_within_a_row_is_refused(tmp_path: Path) -> None:
    data = written(tmp_path / "t")
    assert "cut off" in refusal(tmp_path / "t", data[:-3])
    with pytest.raises(TraceError, match="not a trace file"):
        list(read(_file(tmp_path, data[:5])))


def test_a_run_that_was_killed_leaves_the_records_written_so_far(tmp_path: Path) -> None:
    data = written(tmp_path / "t")
    assert len(list(read(_file(tmp_path, data[: data.rindex(MARK)])))) == 3


def test_change_of_each_byte_of_a_trace_file_is_reported(tmp_path: Path) -> None:
    data = written(tmp_path / "t")
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        how = refusal(tmp_path / "t", bytes(changed))
        assert re.search("is damaged after record|not a trace file|this program reads", how)


def test_damage_in_the_middle_of_a_trace_file_names_its_place(tmp_path: Path) -> None:
    data = written(tmp_path / "t", 2 * BATCH)
    second = data.index(MARK, data.index(MARK, data.index(MARK) + 1) + 1)
    how = f"is damaged after record {BATCH - 1}: its bytes from {second} on are not those that were written"
    path = _file(tmp_path, data[: second + 500] + b"?" + data[second + 501 :])
    given = []
    with pytest.raises(TraceError, match=how):
        given.extend(read(path))
    assert [record.ident for record in given] == [*range(1, BATCH)]


def test_a_trace_file_of_an_earlier_format_is_named_as_such(tmp_path: Path) -> None:
    earlier = msgpack.packb({"format": "orrery-trace/2", "seed": 9})
    assert (
        refusal(tmp_path / "t", earlier)
        == "is a trace file of format orrery-trace/2; this program reads orrery-trace/3"
    )


@pytest.mark.parametrize(
    ("more", "how"), [(b"\x01", "follows its end"), (b"\x93\x01", "follows its end|cut off"), (b"", "")]
)
def test_nothing_may_follow_the_end(tmp_path: Path, more: bytes, how: str) -> None:
    data = written(tmp_path / "t")
    if how:
        with pytest.raises(TraceError, match=how):
            list(read(_file(tmp_path, data + more)))
    else:
        assert len(list(read(_file(tmp_path, data)))) == 3


@pytest.mark.parametrize("data", [b"", b"hello", b"\x81\xa1a\x01", b"\xc1\xc1", b"# a YAML file\n"])
def test_a_file_that_is_no_trace_is_refused_as_such(tmp_path: Path, data: bytes) -> None:
    assert "not a trace file" in refusal(tmp_path / "t", data)


def test_garbage_after_the_header_is_refused_with_where_it_is(tmp_path: Path) -> None:
    data = written(tmp_path / "t")
    end = data.rindex(MARK)
    assert "damaged after record 3" in refusal(tmp_path / "t", data[:end] + b"\x07\x07")


def test_growing_file_yields_each_record_when_it_is_complete(tmp_path: Path) -> None:
    data = written(tmp_path / "t", 20)
    decoder, seen = Decoder("t"), []
    for byte in data:
        seen += [(record.ident, decoder.ended) for record in decoder.feed(bytes([byte]))]
    assert seen == [(ident, False) for ident in range(1, 21)]
    assert decoder.ended


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "cut"
    path.write_bytes(data)
    return path


def test_records_of_series_read_as_single_ones_however_they_were_handed_in(tmp_path: Path) -> None:
    digests = []
    for name, sizes in (("a", (1, 1, 1, 1)), ("b", (3, 1)), ("c", (4,))):
        trace = Trace(tmp_path / name)
        kind = trace.kind("write", "key", "rev")
        series = [trace.series(kind, 7, ("x",)), trace.series(kind, 8, ("y",))]
        assert trace.add(kind, 1, 0, ("z", 4)) == 1
        first = 5
        for size in sizes:
            packed = [IN_SERIES.pack(series[rev % 2], rev * 10) for rev in range(first, first + size)]
            assert trace.run(first, b"".join(packed)) == first - 3
            first += size
        trace.sha256()  # asked for in between, it changes nothing
        trace.run(first, IN_SERIES.pack(series[0], 99))
        assert trace.add(kind, 100, 0, ("z", 10)) == 7
        digests.append(trace.sha256())
        trace.close()
        records = [(r.ident, r.at_us, r.cause, dict(r.values)) for r in read(tmp_path / name)]
        assert records == [
            (1, 1, 0, {"key": "z", "rev": 4}),
            *((rev - 3, rev * 10, 7 + rev % 2, {"key": "xy"[rev % 2], "rev": rev}) for rev in range(5, 9)),
            (6, 99, 7, {"key": "x", "rev": 9}),
            (7, 100, 0, {"key": "z", "rev": 10}),
        ]
    assert len({*digests}) == 1
