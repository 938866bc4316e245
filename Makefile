.PHONY: help install demo test check

help:
	@echo "make install   .venv with everything, and the weights of the default embedder (90 MB)"
	@echo "make demo      backread on a year of chats"
	@echo "make test      all tests"
	@echo "make check     style, types, import contract, sizes"

install:
	@bash scripts/install.sh

demo: install
	@.venv/bin/backread demo

test: install
	@bash scripts/test.sh

check: install
	@bash scripts/check.sh
