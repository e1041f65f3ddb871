"""The machine under an agent: sandboxes, containers, images, logs, resources.

The model of a container runtime: what a program does with time, files and memory is stated in the
scenario (`programs`), and the machine carries it out whether an agent looks or not.
"""
