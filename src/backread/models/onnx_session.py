"""Sessions of onnxruntime: on the CPU, without spinning threads, and without its telemetry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["open_session"]


def open_session(model: str | bytes, threads: int, entries: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
    """An `InferenceSession` for a graph.

    From 1.29 on the official wheels of onnxruntime report to Microsoft which program runs which kind of model, and keep
    an id of the machine in the user's cache. The variable prevents all of it when it is set before the first session
    of the process; where a program has made one before, the call keeps what is done here out of it.

    Args:
        model: the graph, or the path of its file.
        threads: for one call.
        entries: further entries of the session's configuration.

    Raises:
        Exception: the graph can't be opened; onnxruntime's errors have no common base.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning starves a busy machine
    for name, value in (entries or {}).items():
        options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
