"""Pod specs and pod templates: defaults, validation, gated fields, warnings."""
