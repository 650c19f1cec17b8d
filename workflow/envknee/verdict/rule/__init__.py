"""Statistics of a limit, for any measure. Pure."""
