"""Blocks with checksums: returned from pieces of any size; damage and a missing end are
distinguished.
"""

from __future__ import annotations

import pytest

from sim.kernel.blocks import HEADER_BYTES, Blocks, DamageError, block

CONTENTS = [b"one", b"", b"three" * 100]
DATA = b"".join(map(block, CONTENTS))


def given(data: bytes, size: int = 1 << 20) -> tuple[list[bytes], Blocks]:
    blocks = Blocks()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [content for piece in pieces for content in blocks.feed(piece)], blocks


@pytest.mark.parametrize("size", [1, 7, HEADER_BYTES, 1000])
def test_blocks_are_given_back_from_pieces_of_any_size(size: int) -> None:
    contents, blocks = given(DATA, size)
    assert (contents, blocks.at, blocks.left) == (CONTENTS, len(DATA), 0)


def test_a_file_cut_off_anywhere_gives_its_whole_blocks_and_no_damage() -> None:
    ends = [len(b"".join(map(block, CONTENTS[:count]))) for count in range(4)]
    for size in range(len(DATA)):
        contents, blocks = given(DATA[:size])
        whole = sum(end <= size for end in ends[1:])
        assert (contents, blocks.at, blocks.left) == (CONTENTS[:whole], ends[whole], size - ends[whole])


def test_each_changed_bit_is_damage_at_its_block() -> None:
    ends = [len(b"".join(map(block, CONTENTS[:count]))) for count in range(4)]
    for bit in range(8 * len(DATA)):
        changed = bytearray(DATA)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError) as caught:
            given(bytes(changed))
        assert caught.value.at == max(end for end in ends if end <= bit // 8)
