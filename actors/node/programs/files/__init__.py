"""The files that programs of a container see: in memory, one tree a container, volumes of the pod.

`errors` names what can go wrong; `inodes` are files, directories and links, which a `Filesystem`
counts; `tree` is the view of one container, with mounts and permissions; `special` is what the
kernel shows below /proc and /dev; `payloads` and `volumes` are the content of volumes.
"""
