"""Validation rules of custom resources (`x-kubernetes-validations`), in the Common Expression
Language.

`syntax` parses a rule, `checker` finds the types of its parts, `cost` estimates its cost,
`evaluate` runs it. `rules` brings these together for the schemas of a definition and for objects.
"""
