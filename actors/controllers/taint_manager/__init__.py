"""The taint manager: pods leave nodes that have NoExecute taints."""
