"""The options of the daemons, under upstream's names.

An option is a field of a frozen class with its reader, default, unit, bounds and effect; the
reference pages are made from them. An option that has no effect here is refused with the reason.
"""
