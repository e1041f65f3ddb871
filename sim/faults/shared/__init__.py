"""What the faults have in common: their definition, their parameters, and the ledger of active
faults.
"""
