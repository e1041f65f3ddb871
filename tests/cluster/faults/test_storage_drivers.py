"""Storage drivers of a cluster: their objects, and faults that overlap."""

from __future__ import annotations

from sim import Cluster

DISK = "disk.csi.example.com"


async def test_driver_exists_at_the_start_and_its_faults_overlap() -> None:
    async with Cluster(storage=[{"driver": DISK, "attachTime": "4s"}]) as c:
        await c.run_for("2s")
        assert c.refused == ()
        assert [one["metadata"]["name"] for one in c.list("csidrivers")] == [DISK]
        assert [one["provisioner"] for one in c.list("storageclasses")] == [DISK]
        one = c.do.driver(name=DISK, how="slow", by="10s")
        two = c.do.driver(name=DISK, how="failing", operation="attach", message="quota")
        await c.run_for("1s")
        call = c.storage_drivers.call(DISK, "attach", "node-0")
        assert (call.takes_us, call.error) == (14_000_000, "quota") and call.cause
        c.do.heal(step=one)
        await c.run_for("1s")
        call = c.storage_drivers.call(DISK, "attach", "node-0")
        assert (call.takes_us, call.error) == (4_000_000, "quota")
        c.do.heal(step=two)
        await c.run_for("1s")
        assert c.storage_drivers.call(DISK, "attach", "node-0").error == ""
