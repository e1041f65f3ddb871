"""A lab in a real kernel of Jupyter: many cells leave nothing behind."""

from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).parents[3]
WARM, CELLS, GROWTH_MAX_MIB = 20, 300, 6
SETUP = """
from pathlib import Path
import os, threading
from orrery import Lab
lab = Lab(nodes=3, seed=1)
lab.run("1m")
"""
# The value of a cell is kept by the kernel itself, in `Out`; so these cells have none.
CELL = 'state = lab.run("1s"); pods, nodes = lab.pods(), lab.nodes()'
USED = """
pages = int(Path("/proc/self/statm").read_text().split()[1])
print(pages * os.sysconf("SC_PAGE_SIZE") // 2**20, threading.active_count(), len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's client
def test_many_cells_of_a_kernel_leave_no_memory_thread_or_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    manager, client = start_new_kernel(kernel_name="python3")

    def said(code: str) -> str:
        printed: list[str] = []

        def keep(message: dict) -> None:  # type: ignore[type-arg]
            printed.append(message["content"].get("text", ""))

        reply = client.execute_interactive(code, output_hook=keep, timeout=120)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed)

    try:
        said(SETUP)
        for _ in range(WARM):
            said(CELL)
        before_mib, before_threads, before_files = map(int, said(USED).split())
        for _ in range(CELLS):
            said(CELL)
        mib, threads, files = map(int, said(USED).split())
        assert said("print(lab.now_s)").strip() == f"{60.0 + WARM + CELLS}"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (threads, files <= before_files + 2) == (before_threads, True)
    assert mib - before_mib <= GROWTH_MAX_MIB
