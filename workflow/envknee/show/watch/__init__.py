"""A live view of a sweep in the terminal, read from the files of its results folder."""
