"""What programs write becomes lines with times, is cut into partial lines, and is rotated."""

from __future__ import annotations

from actors.node.runtime.log.output import HEADER_BYTES, KEPT_BYTES_MAX, LINE_BYTES_MAX, ContainerLog, Line


def test_a_line_has_the_time_of_its_last_byte() -> None:
    log = ContainerLog()
    log.take("stdout", b"one\ntw", 5)
    log.take("stderr", b"other\n", 6)
    log.take("stdout", b"o\nrest", 7)
    whole = [Line(5, "stdout", b"one\n"), Line(6, "stderr", b"other\n"), Line(7, "stdout", b"two\n")]
    assert list(log.lines) == whole
    log.end(9)
    assert list(log.lines) == [*whole, Line(9, "stdout", b"rest")]


def test_a_line_over_the_limit_is_cut_into_partial_lines() -> None:
    log = ContainerLog()
    log.take("stdout", b"x" * (2 * LINE_BYTES_MAX + 1), 1)
    assert [len(line.data) for line in log.lines] == [LINE_BYTES_MAX] * 2
    log.take("stdout", b"\n" + b"y" * LINE_BYTES_MAX + b"\n", 2)
    assert [len(line.data) for line in log.lines] == [LINE_BYTES_MAX, LINE_BYTES_MAX, 2, LINE_BYTES_MAX + 1]


def test_a_reader_of_the_log_is_called_at_each_write_and_continues_after_a_rotation() -> None:
    log, calls = ContainerLog(), list[int]()
    log.written.watch(lambda: calls.append(1))
    log.take("stdout", b"a\nb\n", 1)
    assert calls == [1]
    log.rotate(files_max=2)
    log.take("stdout", b"c\n", 2)
    assert [line.data for line in log.after(1)] == [b"c\n"]
    assert [line.data for line in log.after(3)] == []
    assert (log.first, log.rotated) == (2, (2 * (HEADER_BYTES + 2),))


def test_of_rotated_files_all_but_the_newest_are_compressed_and_the_oldest_removed() -> None:
    log = ContainerLog()
    sizes = []
    for _ in range(4):
        log.take("stdout", b"x" * (100 - HEADER_BYTES - 1) + b"\n", 1)
        log.rotate(files_max=3)
        sizes.append(log.rotated)
    assert sizes == [(100,), (100, 10), (100, 10), (100, 10)]
    assert log.whole == 110


def test_a_log_that_nothing_rotates_keeps_its_newest_lines_only() -> None:
    log = ContainerLog()
    for number in range(3):
        log.take("stdout", b"%d\n" % number + b"x\n" * (KEPT_BYTES_MAX // (HEADER_BYTES + 2)), 1)
    assert log.size <= KEPT_BYTES_MAX
    assert log.first > 0
    assert log.lines[-1].data == b"x\n"
