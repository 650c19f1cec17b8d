"""How often the joint answer is right: simulated studies over num_envs, horizon and batch size whose truth is known.

handed     the settings of the first joint sweep, and its trials
landscapes true costs, of other forms than the model's
noises     what single seeds deviate from the truth
studies    a simulated study: search, confirming stage and answer by the code of real ones
counts     what of an answer was right
rows       the rows of the table, each with a landscape, a noise and a plan
alike      rows of two arms, with their ratio of environment steps
samplers   what samplers leave after as many trials
tables     the tables, as Markdown
command    `python -m envknee prove-joint`
"""
