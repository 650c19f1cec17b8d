"""The study: what a user asks for, parsed once.

In: a study file. Out: a frozen `Study`, its legal points, the paths of its results. May use: lists of names that other folders offer
(`trainers.names`, `ask.samplers.names`, `trainers.command.presets`), and nothing else of envknee.

value_types what a value may be
model     the study as frozen models
task      what is simulated
arm       trainer, devices and memory under test
command   a program of `trainer: command`, and how its log is read
scaling_rule how other settings change with num_envs
remedies/ what an arm can do when memory is short: a module for each key of `memory:`
sweep     points and trials of one section
strategies how collecting and learning share time and devices
choices   legal values that are names of modules
load      reads study files; errors name the wrong key
space     legal points, the plan, every size derived from a point
first_sizes what a task brings, and sizes for its first study
first_study the text of that study
designs   fixed orders of points, and the seeds of everything
overrides fields of Isaac Lab's configurations that a study sets
presets   reads presets of foreign commands
parts     points whose time follows from parts of other points
reach     what a study would run, read or contact outside envknee
paths     where everything lies
files     how files are written
errors    messages for users, and exit statuses
"""
