"""Records → MLflow: a tracking store shows what the files of a study say.

run         what one MLflow run is to hold, within MLflow's limits
describe    the files of a study → its runs
store       which store, how to reach it, what to do when it cannot be used
database    whether a database can be MLflow's
lock        one publisher at a time
writing     runs into the store: found, taken over from live ones, or made
publish     a whole study, however often
tail live follow beside     curves of trials while they run: rows, runs, the process, and its place beside a sweep
ui          MLflow's web page of the store, on this machine only
server server_config private    `make server`: a tracking server for a group, its settings and its secrets
"""
