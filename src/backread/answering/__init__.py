"""The one shared answerer: a question and a recall become an answer whose citations are checked."""

from backread.answering.answerer import answer
from backread.answering.extractive import quote_answer

__all__ = ["answer", "quote_answer"]
