"""What users of a served cluster do to it, and what they are shown: without HTTP.

`session` is one steered cluster, `changes` what its viewers are shown, `saved` what was done by
hand as a scenario file, `roles` the roles of users.
"""
