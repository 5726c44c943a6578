# `make help` lists what can be made. Everything runs in .venv, which `./hf` sets up.

BIN := .venv/bin
UV ?= uv
SECONDS ?= 600
DOCUMENTS ?= 200000
STORE ?= memory
CPU_MINUTES ?= 24
JOBS ?= 2
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types audit format docs lock bench crash faults fuzz soak kills simulate mutants clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## make .venv with everything the other targets need
	@./hf setup

demo: ## run the example pipeline; press Ctrl-C in the middle and run it again
	@./hf demo

test: ## run the tests, on SQLite and on a PostgreSQL of their own
	@./hf test

lint: setup ## check style and formatting, then types
	$(BIN)/ruff check src tests examples docs bench
	$(BIN)/ruff format --check src tests examples docs bench
	$(MAKE) --no-print-directory types

types: setup ## check types, strictly
	$(BIN)/mypy

audit: setup ## check dependencies, licences and that nothing secret is in the repository
	$(BIN)/python -m tests.audit

format: setup ## put the code into its form
	$(BIN)/ruff check --fix src tests examples docs bench
	$(BIN)/ruff format src tests examples docs bench

docs: setup ## write docs/reference/ anew from the code
	$(BIN)/python docs/generate.py

lock: ## resolve the dependencies anew (needs uv)
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - --all-extras --group dev -o requirements.lock > /dev/null
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - -c requirements.lock -o requirements-run.lock > /dev/null
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - --extra rag --extra web -c requirements.lock -o requirements-rag.lock > /dev/null

bench: setup ## measure throughput, kills and memory, beside the peers (long; not a test; ARGS=--quick)
	$(BIN)/python bench/run.py $(ARGS)

crash: setup ## kill pipelines at every commit point and workers 200 times, on every store (minutes)
	HOLDFAST_CRASH_ROUNDS=200 $(BIN)/python -m pytest tests/crash

fuzz: setup ## feed hostile input to all that takes any (CPU_MINUTES=24, JOBS=2)
	$(BIN)/python -m tests.fuzz --cpu-minutes $(CPU_MINUTES) --jobs $(JOBS) --report docs/evidence/fuzzing.json $(ARGS)

soak: setup ## ten minutes of kills, restarts and decisions on 200,000 documents, on each store (SECONDS=, DOCUMENTS=)
	$(BIN)/python -m tests.soak --on sqlite --seconds $(SECONDS) --documents $(DOCUMENTS)
	$(BIN)/python -m tests.soak --on postgres --seconds $(SECONDS) --documents $(DOCUMENTS)

faults: setup ## the fault laboratory on both stores: real processes, disks, servers and wires that fail (ten minutes)
	$(BIN)/python -m tests.faults --report docs/evidence/faults.json $(ARGS)

kills: setup ## ingest PDFs, killed 40 times, and compare with an undisturbed run (FOLDER=)
	$(BIN)/python -m tests.rag.kills $(FOLDER) --kills 40

simulate: setup ## look for a schedule that breaks a promise (SECONDS=, STORE=memory or sqlite, ARGS=)
	$(BIN)/python -m holdfast.testing.simulation --store $(STORE) --seconds $(SECONDS) --report docs/evidence/simulation-$(STORE).json $(ARGS)

mutants: setup ## make every deliberate mistake, and count the schedules until it is found (minutes)
	$(BIN)/python -m tests.simulation --report docs/evidence/mutants.json

clean: ## remove caches and the demo's database; .venv stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis dist demo.db demo.db-*
	find src tests examples docs bench -name __pycache__ -type d -prune -exec rm -rf {} +
