"""The CronJob loop.

Each run has a name that follows from its scheduled time, so that a crash between a create and the
status that records it starts no run twice.
"""
