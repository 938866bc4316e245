"""Honest numbers for any memory design, on any history. Needs the extra `bench`."""
