"""What is measured of a question: one measure a file, with its formula, its source and the trap in its name.

All are pure functions of ids and texts. None means undefined for this question (no gold, nothing to compare with): it
is left out of means and never counts as 0 or 1. `names` puts them together under the names of records.
"""
