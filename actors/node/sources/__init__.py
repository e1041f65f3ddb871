"""Sources of pods and of the objects that they refer to."""
