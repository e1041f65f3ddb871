"""The volumes of pods as the scheduler sees them, chooses them, and has them bound.

A claim that waits for its first consumer is bound for the node that is chosen, before the pod is;
the choice is assumed in the meantime, so that two pods do not get one volume.
"""
