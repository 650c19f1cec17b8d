"""How a limit is decided, whatever is measured. Pure."""
