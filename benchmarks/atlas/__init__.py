"""The atlas: `envknee knee` on tasks that others wrote, run with their own programs.

tasks.yaml   the list of programs and tasks
listed       that list, read and checked
words        the command line of a search
sittings     what a search took so far, and how it ended
lanes        runs searches, one at a time on each GPU
kept         what is kept of each task, as docs/atlas.md needs it
figure       FPS and gains of all tasks, in small panels
__main__     `python -m benchmarks.atlas`
"""
