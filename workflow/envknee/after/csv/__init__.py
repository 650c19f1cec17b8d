"""A verdict over a user's own measurements: a table from any simulator."""
