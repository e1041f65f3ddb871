"""The feature gates of the daemons: the table of v1.25, how a daemon reads them, and idle ones.

Turns `Name=true,Other=false` into the gates that have another value than their default.
"""
