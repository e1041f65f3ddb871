"""The HorizontalPodAutoscaler loop."""
