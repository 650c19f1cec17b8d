# Set-up happens by itself: every target below first makes .venv from the lock files, or sees that it is there.
#
#     make sweep                                       the default study
#     make sweep CONFIG=config/studies/NAME.yaml       another one; ARGS="..." goes to snakemake as it stands
#     make sweep PLAIN=1                               on a terminal, lines in place of the live view
#     make sweep FROM=study.zip                        the study of an archive, measured here (TRUST=1: whatever it runs and reads)
#     make replay STUDY=results/NAME                   the requests of a study once more, and what is different now
#     make prepare PROFILE=slurm                       the smallest trial of each arm, to see that all is there
#     make sweep PROFILE=slurm                         as jobs of the cluster that slurm/site.local.yaml describes
#     make sweep PROFILE=allocation                    as steps on nodes that you have (salloc, sbatch)
#     make sweep PYTHON=python3.12 TORCH=cpu           which Python and which build of PyTorch .venv is made with
#     make setup TRAINERS=all                          the trainers beside RSL-RL, too (TRAINERS=ray: and Ray)
#     make setup PHYSICS=ovphysx                       PhysX without Isaac Sim, too: `presets: ovphysx`

CONFIG = config/config.yaml
ARGS =
STUDY =
A =
B =
FROM =
NAME =
IMAGE =
PROFILE =
PLAIN =

# A foreign command (trainer: command) is looked for where its user would.
export ENVKNEE_PATH := $(PATH)
# Rules call `python -m envknee NAME`: .venv's python comes first.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Taken as they stand, and passed through the environment: no file name is ever read as shell or make code.
# A study that is named is published as its own file says, unless another one is named, too.
ifeq ($(origin CONFIG),file)
published_as = "$${STUDY:+$$STUDY/study.json}"
endif
override CONFIG := $(value CONFIG)
override STUDY := $(value STUDY)
override A := $(value A)
override B := $(value B)
override FROM := $(value FROM)
override NAME := $(value NAME)
override IMAGE := $(value IMAGE)
override PROFILE := $(value PROFILE)
export CONFIG STUDY A B FROM NAME IMAGE PROFILE
# Set by ROS and others, these would put foreign packages before .venv's; without .pyc files each trial starts 5 s later.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
# Nothing is imported from the working directory, where results of others may lie.
export PYTHONSAFEPATH := 1

study_name = python -m envknee check "$$CONFIG"
study_folder = "$${STUDY:-results/$$($(study_name))}"
# Targets before --configfile, which takes every word behind it.
snakemake = if [ -n "$$PROFILE" ]; then set -- --profile "$$PROFILE"; else set -- --resources device=$$(python -m envknee gpus); fi && \
	$(2) snakemake $(1) "$$@" --configfile "$$CONFIG" $(ARGS)
measure = study=$$($(study_name)) && echo "envknee: study $$study" && \
	$(call snakemake,,python -m envknee.run.live $(if $(PLAIN),--plain) "results/$$study") && \
	python -m envknee summary --where "results/$$study"

.PHONY: help setup prepare sweep replay ui server publish verify keep archive optuna overhead compare prove prove-joint drill test gpu-test check locks numbers docs
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## make .venv and nothing else
	@bash workflow/setup.sh

prepare: setup ## run the smallest trial of each arm of CONFIG, and nothing else; with PROFILE=slurm as a job
	@$(call snakemake,prepare,)

sweep: setup ## run the study CONFIG, or go on with it, and say what was found
	@if [ -n "$$STUDY" ]; then echo "envknee: sweep takes CONFIG=FILE or FROM=ARCHIVE, and STUDY=$$STUDY was given. To go on with a" \
		"study, name its file: CONFIG=$$STUDY/study.json" >&2; exit 2; fi
	@if [ -n "$$FROM" ]; then CONFIG=$$(python -m envknee archive --unpack "$$FROM") || exit; fi && \
	$(measure)

replay: setup ## run the recorded requests of STUDY (a results folder, or FROM=FILE) again as study NAME, and compare; IMAGE=another image
	@if [ -n "$$FROM" ]; then STUDY=$$(python -m envknee archive --unpack "$$FROM") || exit; STUDY=$$(dirname "$$STUDY"); fi && \
	folder=$(study_folder) && \
	CONFIG=$$(python -m envknee replay "$$folder" --name "$$NAME" --image "$$IMAGE") && \
	$(measure) && { python -m envknee compare "$$folder" "results/$$study" || [ $$? -eq 4 ]; } # 4: too few repeats, or another machine

ui: setup ## open the runs of CONFIG in MLflow's web page
	@python -m envknee publish --ui --config "$$CONFIG"

server: setup ## start a tracking server for a group; ARGS="--host 0.0.0.0 --name mlflow.lab.example:5000" for other machines
	@exec python -m envknee server $(ARGS)

publish: setup ## put the records of CONFIG, or of STUDY, into its tracking store; again changes nothing
	@folder=$(study_folder) && file=$(published_as) && python -m envknee publish "$$folder" --config "$${file:-$$CONFIG}"

verify: setup ## recompute the decisions of STUDY (a results folder): requests, records and verdict must come out the same
	@folder=$(study_folder) && python -m envknee replay --verify "$$folder"

keep: setup ## write STUDY (a results folder) to results-published/ as a few files, without logs, to be committed
	@folder=$(study_folder) && python -m envknee keep "$$folder"

archive: setup ## write STUDY (a results folder) as one file, to be checked, read and run again elsewhere: sweep FROM=FILE
	@folder=$(study_folder) && python -m envknee archive "$$folder"

optuna: setup ## write STUDY (a results folder) as a journal for Optuna's own tools: optuna.load_study, optuna-dashboard
	@folder=$(study_folder) && python -m envknee optuna "$$folder"

overhead: setup ## what measuring costs: CONFIG's task through `isaaclab train` and through trials, in turns
	@python -m envknee overhead "$$CONFIG" $(ARGS)

compare: setup ## B beside A, trial by trial: A=results/x B=results/y (or FOLDER:ARM, FOLDER@COMMIT); ends with 3 where B is worse
	@if [ -z "$$A" ] || [ -z "$$B" ]; then echo "envknee: compare takes A=results/x B=results/y (or FOLDER:ARM, FOLDER@COMMIT)," \
		"and A='$$A' B='$$B' was given" >&2; exit 2; fi
	@python -m envknee compare "$$A" "$$B" $(ARGS)

prove: setup ## how often verdicts are right in simulated studies of known truth; ARGS="--output proof.md"
	@python -m envknee prove $(ARGS)

prove-joint: setup ## how often joint answers are right, likewise; ARGS="--rows 'FPS: *'", and --list for the rows
	@python -m envknee prove-joint $(ARGS)

drill: setup ## kill processes of a real sweep at random: nothing may be lost, doubled or left behind; ARGS="--kills 5"
	@python -m envknee drill $(ARGS)

# A worker more than there are cores, for SLURM's tests and the image's wait most of the time; five at most. Tests that
# call make would get MAKEFLAGS, and so these ARGS.
# A thread each: more would spin while they wait for a core that another test has.
test: setup ## all tests that this machine can run, side by side; ARGS="..." goes to pytest as it stands
	@cores=$$(nproc) && env -u MAKEFLAGS -u MFLAGS OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		pytest -n $$((cores > 4 ? 5 : cores + 1)) --dist loadgroup --no-loadscope-reorder $(ARGS)

gpu-test: setup ## only the tests that need an NVIDIA GPU
	@pytest -m gpu

check: setup ## format, lint, numbers of the pages and types (those of every trainer: make setup TRAINERS=ray first)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types style

# Types take as long as all the rest.
.PHONY: types style
types:
	@pyright || { echo "envknee: every trainer's types are checked; imports that could not be resolved come with" \
		"make setup TRAINERS=ray" >&2; exit 1; }

style:
	@ruff format --check .
	@ruff check .
	@PYTHONPATH=workflow lint-imports --no-logo --no-cache
	@snakefmt --check Snakefile workflow/Snakefile workflow/rules
	@snakemake --lint
	@python -m envknee numbers --check

locks: ## write the lock files again from the lists beside them (*.in), with the sha256 of each file; needs uv
	@for list in containers/*.in workflow/*.in; do uv pip compile --quiet --no-deps --universal --python-version 3.12 --no-annotate \
		--generate-hashes --custom-compile-command "make locks" "$$list" --output-file "$${list%.in}.lock" || exit; done
	@# '===' is this version and nothing else: '==' would also take, and prefer, the CPU build's 2.13.0+cpu.
	@sed -i 's/^torch==/torch===/' containers/requirements-cuda.lock
	@python containers/licences.py $$(ls containers/*.lock workflow/*.lock | grep -v requirements-cpu) >containers/licences.csv

numbers: setup ## write the numbers of README and docs from the records; ARGS=--check shows what would change
	@python -m envknee numbers $(ARGS)

docs: setup ## build these pages as a site in build/site/index.html; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 mkdocs build && echo "envknee: documentation build/site/index.html"
