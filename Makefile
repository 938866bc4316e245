.PHONY: help install demo test check docs

help:
	@echo "make install   .venv with everything, and the weights of the default embedder (90 MB)"
	@echo "make demo      backread on a year of chats"
	@echo "make test      all tests"
	@echo "make check     style, types, import contract, sizes"
	@echo "make docs      the documentation as a site, in site/"

install:
	@bash scripts/install.sh

demo: install
	@.venv/bin/backread demo

test: install
	@bash scripts/test.sh

check: install
	@bash scripts/check.sh

docs: install
	@bash scripts/docs.sh
