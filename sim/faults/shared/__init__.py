"""The common parts of the faults: definition, parameters, and the ledger."""
