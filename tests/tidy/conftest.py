"""What the tests of the project's rules share."""

import gc
from collections.abc import Iterator

import pytest

from tests.tidy import sources


@pytest.fixture(scope="package", autouse=True)
def sources_in_memory() -> Iterator[None]:
    """Keep the syntax trees of all files until the last test of this folder.

    They hold no garbage, and each search for it visits all of them.
    """
    gc.disable()
    yield
    gc.enable()
    sources.forget()
