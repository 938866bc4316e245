"""Statistics of experiments: pure functions that name their degenerate cases and take their randomness as an argument.

A figure that can't be had (of no questions, of one conversation) is None, never 0. Numbers of two designs are paired
by question, and questions of one conversation are not independent: what is said of a mean knows the conversations.
"""
