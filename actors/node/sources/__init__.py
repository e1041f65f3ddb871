"""Sources of pods (the API, manifest files) and of the objects that pods refer to.

A mirror pod stands for a pod of a manifest file. An object that a pod refers to is read when it is
needed and remembered for a time, as `configMapAndSecretChangeDetectionStrategy` says.
"""
