"""What `deploy/` starts is what there is: commands, options and settings by their names; no door stands open."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import typer
import yaml

from backread.cli import app
from backread.settings import ENVIRONMENT

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def options(command: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    return {option for parameter in group.commands[command].params for option in parameter.opts}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "backread.service", encoding="utf-8")
    return parser["Service"]


def test_the_image_starts_a_server_that_asks_for_keys() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    words = json.loads(re.findall(r"^CMD (.+)$", dockerfile, re.MULTILINE)[0])
    assert words[0] == "serve"
    assert {word for word in words if word.startswith("--")} == {"--host", "--keys"} <= options("serve")
    assert re.findall(r"^USER (.+)$", dockerfile, re.MULTILINE) == ["backread"]
    set_there = set(re.findall(r"\b(BACKREAD_\w+)=", dockerfile))
    assert set_there == {"BACKREAD_PATH", "BACKREAD_MODELS_DIR"} <= set(ENVIRONMENT.values())


def test_the_build_sees_nothing_but_what_it_copies() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert {name for line in copied for name in line.split()} == {line[1:] for line in ignore if line.startswith("!")}
    assert ignore[0] == "*"


def test_the_container_is_closed() -> None:
    service = compose()["services"]["backread"]
    assert service["ports"] == ["127.0.0.1:8765:8765"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert set(service["environment"]) <= set(ENVIRONMENT.values())
    mounts = [
        entry if isinstance(entry, str) else f"{entry['source']}:{entry['target']}" for entry in service["volumes"]
    ]
    assert mounts == ["data:/data", "models:/models", "./keys.toml:/etc/backread/keys.toml"]
    assert set(compose()["volumes"]) == {"data", "models"}


def test_the_healthcheck_asks_whether_the_store_can_be_read() -> None:
    kind, program, option, code = compose()["services"]["backread"]["healthcheck"]["test"]
    assert (kind, program, option) == ("CMD", "python", "-c")
    compile(code, "healthcheck", "exec")
    assert "http://127.0.0.1:8765/readyz" in code


def test_the_unit_starts_a_server_on_this_machine_only() -> None:
    service = unit()
    words = shlex.split(service["ExecStart"])
    assert words == ["/opt/backread/bin/backread", "serve", "--keys", "%d/keys.toml"]
    assert service["LoadCredential"] == "keys.toml:/etc/backread/keys.toml"
    assert {name for name, _, _ in (pair.partition("=") for pair in service["Environment"].split())} <= set(
        ENVIRONMENT.values()
    )
    assert (service["DynamicUser"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("yes", "strict", "")
