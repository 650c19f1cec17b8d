"""The report's interactive charts: from verdict and records to data that scripts draw. They decide nothing.

model         what a chart is
throughput    FPS against num_envs, and the gain of each doubling
target        seconds to the target against num_envs
memory        memory peaks against num_envs
maps          the joint answer over num_envs, horizon and batch size
coordinates   every trial of a joint search, and how much each axis matters
registry      which figures of the report have a chart

workflow/report/script/charts.js draws them. Each figure keeps its static picture, for paper and for readers without scripts.
"""
