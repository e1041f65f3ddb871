"""What a terminal shows of a cluster while it runs, and the keys by which it is steered.

`view` draws a state, `follow` finds it and keeps it on the terminal, `keys` reads the keyboard, and
`console` is the terminal itself.
"""
