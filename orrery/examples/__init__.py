"""Controllers to copy from: programs of a user, in Python, that run in a simulated cluster.

`descheduler` evicts pods so that the scheduler places them better, and `node_autoscaler` adds and
removes nodes.  Each is a pure decision (`decide`) and a thin shell (`loop`) that reads and writes
by the API alone, so that it can crash, be cut off or be late like any process:

    from orrery import Cluster
    from orrery.examples import descheduler

    async with Cluster(nodes=3) as cluster:
        cluster.add_program("descheduler", descheduler.run)
        await cluster.run_for("10m")
"""
