"""A verdict over a person's own measurements: a table from any simulator."""
