"""What every stage shares: points and their sizes, and fields of models. Uses no other folder.

point    num_envs, horizon and batch size, and the sizes that follow
parts    points whose time follows from parts of other points
fields   the kind of a trial, and fields that are left out where they have their default
"""
