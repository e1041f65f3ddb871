"""The process of the command: its output, interrupts, memory and pages, without a cluster."""
