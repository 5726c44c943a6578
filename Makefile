# `make help` lists the targets. Everything runs in .venv, which `./hf` sets up.

BIN := .venv/bin
UV ?= uv
SECONDS ?= 600
DOCUMENTS ?= 200000
STORE ?= memory
CPU_MINUTES ?= 24
JOBS ?= 2
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types audit format docs lock documents graph bench crash faults fuzz soak kills simulate mutants clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## create .venv with everything the other targets need
	@./hf setup

demo: ## make sample documents searchable, kill that on the way, go on, and search
	@./hf demo

test: ## run the tests, on SQLite and on a temporary PostgreSQL
	@./hf test

lint: setup ## check style and formatting, then types
	$(BIN)/ruff check src tests examples docs bench scripts
	$(BIN)/ruff format --check src tests examples docs bench scripts
	$(MAKE) --no-print-directory types

types: setup ## check types, strictly
	$(BIN)/mypy

audit: setup ## check dependencies and licences, and search the repository for secrets
	$(BIN)/python -m tests.audit

format: setup ## format the code
	$(BIN)/ruff check --fix src tests examples docs bench scripts
	$(BIN)/ruff format src tests examples docs bench scripts

docs: setup ## generate docs/reference/ from the code
	$(BIN)/python docs/generate.py

lock: ## resolve the dependencies again (needs uv)
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - --all-extras --group dev -o requirements.lock > /dev/null
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - -c requirements.lock -o requirements-run.lock > /dev/null
	printf 'hatchling\neditables\n' | $(COMPILE) pyproject.toml - --extra rag --extra web -c requirements.lock -o requirements-rag.lock > /dev/null

documents: ## build the sample documents of the demo (needs uv)
	$(UV) run scripts/build_harbour_documents.py

graph: ## build the ONNX graph of the embedding model (needs uv; see docs/decisions/0040)
	$(UV) run scripts/build_granite_graph.py

bench: setup ## measure throughput, kills and memory, together with the peers (an hour; ARGS=--quick)
	$(BIN)/python bench/run.py $(ARGS)

crash: setup ## kill pipelines at every commit point and workers 200 times, on every store (minutes)
	HOLDFAST_CRASH_ROUNDS=200 $(BIN)/python -m pytest tests/crash

fuzz: setup ## feed hostile input to everything that takes input (CPU_MINUTES=24, JOBS=2)
	$(BIN)/python -m tests.fuzz --cpu-minutes $(CPU_MINUTES) --jobs $(JOBS) --report docs/evidence/fuzzing.json $(ARGS)

soak: setup ## run 200,000 documents with kills, restarts and decisions, ten minutes on each store (SECONDS=, DOCUMENTS=)
	$(BIN)/python -m tests.soak --on sqlite --seconds $(SECONDS) --documents $(DOCUMENTS)
	$(BIN)/python -m tests.soak --on postgres --seconds $(SECONDS) --documents $(DOCUMENTS)

faults: setup ## run the fault cases on both stores: processes, disks, servers and connections fail (ten minutes)
	$(BIN)/python -m tests.faults --report docs/evidence/faults.json $(ARGS)

kills: setup ## ingest PDFs with 40 kills, and compare with an undisturbed run (FOLDER=)
	$(BIN)/python -m tests.scenarios.document_search.killed_ingest $(FOLDER) --kills 40

simulate: setup ## search for a schedule that violates an invariant (SECONDS=, STORE=memory or sqlite, ARGS=)
	$(BIN)/python -m tests.simulation --store $(STORE) --seconds $(SECONDS) --report docs/evidence/simulation-$(STORE).json $(ARGS)

mutants: setup ## apply every deliberate mistake, and count the schedules until it is found (minutes)
	$(BIN)/python -m tests.simulation.run_mutants --report docs/evidence/mutants.json

clean: ## remove caches and the database of the demo; .venv stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis dist demo.db demo.db-*
	find src tests examples docs bench -name __pycache__ -type d -prune -exec rm -rf {} +
