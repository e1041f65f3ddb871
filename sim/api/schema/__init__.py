"""Types of objects: what a kind declares, field schemas, and structural validation.

A kind's row, strategy and fields are values; structural validation, decoding and pruning are
functions of them and know no kind.
"""
