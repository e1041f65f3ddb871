"""The Deployment loop.

A rollout is a sequence of sizes of two sets of pods: each sync moves them within `maxSurge` and
`maxUnavailable`, and waits for pods to become available.
"""
