# make demo       set everything up, run the main job on the rehearsal engine, show the report
# make demo-vllm  the same on two real vLLM servers on this CPU
# make test       set everything up, run every check and every test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo demo-vllm test check unit setup vllm chromium prometheus nginx compose clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml setup.py constraints.txt scripts/setup_venv.sh $(wildcard loadgen/drive/kernel/_*.[ch])
	@PYTHON=$(PYTHON) sh scripts/setup_venv.sh $(VENV)

vllm:
	@bash scripts/setup_vllm_cpu.sh

chromium:
	@sh scripts/setup_chromium.sh || { [ $$? -eq 3 ] && [ "$$SPECLOAD_NO_SKIP" != 1 ]; }

prometheus:
	@sh scripts/setup_prometheus.sh || { [ $$? -eq 3 ] && [ "$$SPECLOAD_NO_SKIP" != 1 ]; }

nginx:
	@sh scripts/setup_nginx.sh || { [ $$? -eq 3 ] && [ "$$SPECLOAD_NO_SKIP" != 1 ]; }

compose:
	@sh scripts/setup_compose.sh || { [ $$? -eq 3 ] && [ "$$SPECLOAD_NO_SKIP" != 1 ]; }

demo: setup
	@$(BIN)/specload demo

demo-vllm: setup vllm
	@$(BIN)/specload demo --vllm

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: setup
	$(BIN)/pytest -n 3 --dist worksteal -m "not vllm"

# Where pip cannot find the CPU build of torch, or Chromium, Prometheus, nginx or docker-compose cannot be installed (the
# scripts exit with 3 and say so), the tests that need them skip with that reason; with SPECLOAD_NO_SKIP=1 that is a failure.
test: setup check chromium prometheus nginx compose
	@bash scripts/setup_vllm_cpu.sh || { [ $$? -eq 3 ] && [ "$$SPECLOAD_NO_SKIP" != 1 ]; }
	$(BIN)/pytest -n 3 --dist worksteal -m "not vllm"
	$(BIN)/pytest -m vllm

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
