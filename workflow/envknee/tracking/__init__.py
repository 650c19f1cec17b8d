"""Records → MLflow: a tracking store shows what the files of a study say.

run        what one MLflow run is to hold, within MLflow's limits
describe   the files of a study → its runs
store      which store, how to reach it, what to do when it cannot be used
lock       one publisher at a time
publish    runs → the store, however often
ui         MLflow's web page of the store, on this machine only
"""
