"""Reference pages that are generated from the code: steps, conditions, options and the schema.

Each module turns declarations (the registry of steps, the options of the daemons, the types of a
scenario file) into plain values, which the commands print as text or JSON and the documents hold.
"""
