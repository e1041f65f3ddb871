"""The taint manager: pods leave nodes that have NoExecute taints.

For each pod on a tainted node there is one time at which it is deleted: the least of its
`tolerationSeconds`, or now if one taint is not tolerated.
"""
