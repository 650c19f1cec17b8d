"""Publishes a study to MLflow.

In: a study's folder (records, rows, verdict, figures). Out: runs in an MLflow store, and its web page.
May use: study, record, verdict, machine. Only the workflow's rules use it.

Content of runs:      describe (a trial), arms (an arm), answer (its numbers), system (load and memory of GPUs)
The page of runs:     view (which runs, columns and charts it shows), charts
Writing:              run (one run within MLflow's limits), writing (into the store), publish (a whole study)
While trials run:     live (rows and runs), follow (the process beside a sweep)
Store:                store (its address), client (MLflow's client), database, patience (how long a silent one is waited for)
Page and server:      ui, server, mlflow_server (started by both), sign_in (passwords), guard (checks of every request)
"""
