"""Records → MLflow: a tracking store shows what the files of a study say.

Comes in: a study's folder (records, rows, verdict, figures). Goes out: runs in an MLflow store, and its web page.
May use: study, record, verdict, machine. Nothing uses it but the rules of the workflow.

What is logged:       describe (a trial), arms (an arm), system (load and memory of its GPUs), view (columns and charts of the page)
How it is written:    run (one run within MLflow's limits), writing (into the store), publish (a whole study)
While trials run:     tail (rows), live (runs), follow (the process beside a sweep)
Which store:          store (its address), client (MLflow's client of it), database
Its page and server:  ui, server, mlflow_server (what both start), sign_in (passwords), guard (what the server checks in every request)
"""
