"""The controller that attaches the volumes of scheduled pods to their nodes."""
