"""The simulated cluster behind the real API, and the journal of what it served.

All that enters from outside goes through the gate of the kernel and into the journal with its
position, so that a replay is the same run.
"""
