"""The kinds of the group autoscaling."""
