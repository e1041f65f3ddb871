"""The StatefulSet loop."""
