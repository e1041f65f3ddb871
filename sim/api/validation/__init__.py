"""Rules about the fields that all objects share, and the errors that every rule reports.

Turns metadata, names, labels and texts into field errors in upstream's words.  The rules of one
kind are in `sim.api.kinds`, those of custom resources in `sim.api.crd`; both build on this package.

Mirrors  apimachinery v1.25 pkg/api/validation, pkg/util/validation.
"""
