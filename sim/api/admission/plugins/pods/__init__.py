"""The admission plugins that read or change the spec of a pod."""
