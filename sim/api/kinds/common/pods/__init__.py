"""Pod specs and pod templates: defaults, validation, gated fields, warnings.

Pods and all kinds that hold a pod template pass these rules, with the differences that upstream has
for templates.
"""
