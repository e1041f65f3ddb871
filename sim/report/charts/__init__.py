"""Charts as Vega-Lite specifications.

`chart` is the value: a specification that a page draws in the browser, Altair takes over, and
`vl-convert` writes as SVG and PNG; `scripts` finds the programs that a page carries; `run`,
`distribution` and `setting` make specifications of a run, of a quantity, and of a quantity over a
varied setting.
"""
