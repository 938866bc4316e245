"""The command line: one thin module per group of commands, each of them argument parsing, one `Memory` call, output."""

from backread.cli.app import app, main

__all__ = ["app", "main"]
