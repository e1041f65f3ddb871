"""The node lifecycle loop: silent nodes become Unknown and are tainted.

A node is silent if neither its lease nor its status has changed for the grace period by the
controller's own clock. Silence makes it Unknown, Unknown taints it NoExecute, and the rate of
tainting falls with the share of its zone that is silent.
"""
