"""Fakes and contract tests, shipped for users of the package."""
