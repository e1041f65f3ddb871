"""Pods on a node: admission, workers, status, probes and the end of pods.

Each pod has one worker, which goes forward only: sync, terminating, terminated. Its status is
calculated from what the runtime reports and is sent by the status manager.
"""
