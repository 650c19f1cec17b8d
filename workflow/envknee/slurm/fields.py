"""SLURM's lines of `Name=value Name=value`, as `scontrol --oneliner` prints them."""


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a line. A value with blanks is cut at the first one: none that is read here has any."""
    fields = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = value
    return fields
