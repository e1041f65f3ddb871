"""The admission plugins, one idea a module; `sim.api.admission.chain` holds their order."""
