"""The process that holds xllamacpp's server: `python -m backread.models.serving`, started by `backread.models.local`.

It reads one line of JSON, starts the server, writes one line of JSON (where it listens, or why not), and ends when its
standard input does: whatever ends the process that started it, killing included, ends the server too. A process of its
own, because loading, stopping and a crash of the native code would halt or take down the one that asks.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

__all__ = ["main"]

_PROMPT_CACHE_MIB = 256
_PENALTY_TOKENS = 256


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process if it ends
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # native code that prints does not get into the answer
    wanted = json.loads(sys.stdin.buffer.readline())
    server: Any = None
    try:
        server = _start(wanted)
        said = {"address": server.listening_address}
    except ImportError as error:
        said = {"missing": str(error)}
    except AttributeError as error:  # its settings are named anew now and then
        said = {"missing": f"another version is needed than the one that is installed: {error}"}
    except Exception as error:  # noqa: BLE001 -- the parent raises it
        said = {"error": f"{type(error).__name__}: {error}"}
    answer.write(json.dumps(said) + "\n")
    answer.close()
    while server is not None and sys.stdin.buffer.read(4096):
        pass
    os._exit(0)  # destroying the server would wait for the request in progress


def _start(wanted: dict[str, Any]) -> Any:  # noqa: ANN401 -- xllamacpp is native and has no types
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = wanted["path"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # a free one
    params.api_keys = [wanted["api_key"]]  # loopback is open to every user and every web page of this machine
    params.n_ctx = wanted["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.sampling.penalty_repeat = wanted["repeat_penalty"]
    params.sampling.penalty_last_n = _PENALTY_TOKENS
    params.cache_ram_mib = _PROMPT_CACHE_MIB  # 8 GiB unless said
    params.fit_params = False  # the context is as asked, or it is an error
    params.ui = False
    params.endpoint_slots = False  # would show the prompts
    params.offline = True
    params.verbosity = 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
