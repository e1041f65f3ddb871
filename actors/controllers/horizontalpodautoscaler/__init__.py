"""The HorizontalPodAutoscaler loop.

Each metric proposes a number of replicas, the largest counts, and windows of past proposals and
past changes bound how fast the size moves.
"""
