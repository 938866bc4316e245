"""Settings: where each value comes from, and what is said when it can't be used."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from backread.errors import InvalidInputError
from backread.secret import Secret
from backread.settings import ENVIRONMENT, Settings, resolve


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_every_setting_has_a_variable() -> None:
    assert list(ENVIRONMENT) == [field.name for field in fields(Settings)]


def test_every_setting_is_described() -> None:
    described = Settings.__doc__ or ""
    assert [field.name for field in fields(Settings) if f"        {field.name}: " not in described] == []


def test_without_anything_the_defaults_hold() -> None:
    settings = resolve({})
    assert settings == Settings()
    assert (settings.embedder, settings.strategy, settings.budget) == ("minilm", "naive_rag", 1000)
    assert settings.model is None


def test_arguments_win_over_the_environment_over_the_file_over_the_defaults(config: Path) -> None:
    config.write_text('embedder = "from-file"\nbudget = 1\nzone = "Europe/Paris"\n', encoding="utf-8")
    environment = {"BACKREAD_CONFIG": str(config), "BACKREAD_EMBEDDER": "from-environment", "BACKREAD_BUDGET": "2"}
    settings = resolve(environment, budget=3)
    assert (settings.budget, settings.embedder, settings.zone) == (3, "from-environment", "Europe/Paris")
    assert settings.strategy == Settings().strategy


def test_an_argument_that_is_none_and_an_empty_variable_were_not_given() -> None:
    assert resolve({"BACKREAD_EMBEDDER": ""}, budget=None) == Settings()


def test_values_are_converted() -> None:
    environment = {"BACKREAD_PATH": "~/m.db", "BACKREAD_BUDGET": "12", "BACKREAD_CATCH_UP_SECONDS": "0.25"}
    settings = resolve(environment)
    assert settings.path == Path("~/m.db").expanduser()
    assert (settings.budget, settings.catch_up_seconds) == (12, 0.25)


@pytest.mark.parametrize(
    ("environment", "place"),
    [({"BACKREAD_BUDGET": "many"}, "BACKREAD_BUDGET"), ({"BACKREAD_CATCH_UP_SECONDS": "soon"}, "CATCH_UP_SECONDS")],
)
def test_a_value_of_the_wrong_type_names_its_place(environment: dict[str, str], place: str) -> None:
    with pytest.raises(InvalidInputError, match=place):
        resolve(environment)


def test_text_is_not_made_from_numbers(config: Path) -> None:
    config.write_text("embedder = 3\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="embedder in the configuration file"):
        resolve({"BACKREAD_CONFIG": str(config)})


def test_an_unknown_setting_is_refused_with_the_known_ones(config: Path) -> None:
    with pytest.raises(InvalidInputError, match="'colour' in the arguments") as caught:
        resolve({}, colour="red")
    assert "embedder" in (caught.value.hint or "")
    config.write_text("colour = 'red'\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="'colour' in the configuration file"):
        resolve({"BACKREAD_CONFIG": str(config)})


@pytest.mark.parametrize("content", [b"embedder = ", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(config: Path, content: bytes) -> None:
    config.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"config\.toml"):
        resolve({"BACKREAD_CONFIG": str(config)})


def test_a_configuration_file_that_is_named_must_exist(config: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"config\.toml"):
        resolve({"BACKREAD_CONFIG": str(config)})


def test_the_key_is_never_shown() -> None:
    settings = resolve({"OPENAI_API_KEY": "sk-secret"})
    assert settings.api_key == Secret("sk-secret")
    assert "sk-secret" not in repr(settings)


def test_a_zone_must_exist() -> None:
    assert resolve({}, zone="Asia/Tokyo").zone_info == ZoneInfo("Asia/Tokyo")
    for zone in ("Mars/Olympus", "../etc/passwd", ""):
        with pytest.raises(InvalidInputError, match="time zone"):
            _ = Settings(zone=zone).zone_info
