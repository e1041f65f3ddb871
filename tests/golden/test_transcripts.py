"""Each story gives its transcript; a changed line is committed only with its explanation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.transcript import stories, transcript

AGAIN = "explain each line, and write it again: python -m tests.golden.transcript"


@pytest.mark.slow
@pytest.mark.parametrize("story", stories(), ids=lambda story: story.stem)
def test_story_gives_its_transcript(story: Path) -> None:
    recorded = story.with_suffix(".txt").read_text(encoding="utf-8")
    assert transcript(story).splitlines() == recorded.splitlines(), AGAIN


def test_there_are_twenty_stories_with_a_transcript_each() -> None:
    assert len(stories()) >= 20
    texts = {text.stem for text in stories()[0].parent.glob("*.txt")}
    assert texts == {story.stem for story in stories()}
