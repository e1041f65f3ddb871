"""Sources of pods (the API, manifest files) and of the objects that pods refer to."""
