"""The node lifecycle loop: silent nodes become Unknown and are tainted."""
