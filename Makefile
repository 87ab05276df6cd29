# Wardian's commands. The second time, each does only what changed: what was made is stamped under .build/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
BIN := .venv/bin
LIGHT_TRAINERS := openenv mcp inspect
TRAINERS := $(LIGHT_TRAINERS) mcp1 verifiers trl
VENV_INPUTS := pyproject.toml scripts/venv.sh scripts/lib.sh

.PHONY: help run test test-trainers check build-images engine bench reap clean trainer-envs

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build-images ## play 50 billing episodes with faults in 4 cells; sets up all it needs first
	@$(BIN)/wardian run billing --policy expert --episodes 50 --cells 4 --faults realistic

test: .build/dev.stamp build-images trainer-envs ## run the tests; sets up all it needs first
	@$(BIN)/python -m pytest -n 3 --dist loadfile

test-trainers: .build/dev.stamp build-images ## run the tests of every trainer's adapter; makes their environments, 3 GB, first
	@scripts/trainer-env.sh $(TRAINERS)
	@WARDIAN_TRAINERS=all $(BIN)/python -m pytest -rP tests/trainers/test_environments.py

check: .build/dev.stamp ## format, lint, types, import contract
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

build-images: .build/base.stamp engine ## build the images that cells run, where they are missing
	@$(BIN)/wardian build-images

engine: ## make sure that a container engine answers; as root on Debian, install and start one
	@scripts/engine.sh

bench: .build/dev.stamp build-images ## measure resets and commands, and plot them
	@$(BIN)/wardian bench

reap: .build/base.stamp ## remove what crashed runs left in the engine
	@$(BIN)/wardian reap

trainer-envs: .build/dev.stamp
	@scripts/trainer-env.sh $(LIGHT_TRAINERS)

clean: ## remove what make made in this folder; the engine and its images stay
	@rm -rf .build .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp without its .venv says nothing.
$(if $(wildcard $(BIN)/wardian),,$(shell rm -f .build/*.stamp))

.build/base.stamp: $(VENV_INPUTS) constraints/base.txt
	@scripts/venv.sh base
	@touch $@

.build/dev.stamp: $(VENV_INPUTS) constraints/dev.txt
	@scripts/venv.sh dev
	@touch $@ .build/base.stamp
