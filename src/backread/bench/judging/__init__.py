"""Grading by models: answers, the evidence they rest on, and the judges themselves."""

from backread.bench.judging.calibration import Calibration, calibrate
from backread.bench.judging.control import vague_answer
from backread.bench.judging.judge import Graded, Judge
from backread.bench.judging.quality import Quality, grade_quality
from backread.bench.judging.verdicts import read_verdict

__all__ = [
    "Calibration",
    "Graded",
    "Judge",
    "Quality",
    "calibrate",
    "grade_quality",
    "read_verdict",
    "vague_answer",
]
