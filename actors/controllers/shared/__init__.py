"""What several control loops share.

The shell of a loop (`shell`: informers, queue, workers), owners and revisions, and conversions that
upstream keeps in `pkg/controller`.
"""
