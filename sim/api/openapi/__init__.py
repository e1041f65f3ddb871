"""OpenAPI documents of the served kinds.

The documents follow from the schemas of the fixed kinds and of the definitions, and are made once
for each state of both.
"""
