"""The app: its commands in the order of the help, its global options, and `main`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from backread.cli import (
    add,
    asking,
    bench,
    building,
    deleting,
    demo,
    doctor,
    exporting,
    importing,
    keeping,
    mcp,
    models,
    parts,
    reading,
    saving,
    searching,
    serving,
)
from backread.cli.coercion import taken_as_typed
from backread.cli.completing import script
from backread.cli.failures import CODES, PipeClosedError, guarded
from backread.cli.streams import open_streams

__all__ = ["app", "main"]

_WRITE: Final = "Write"
_FIND: Final = "Find"
_READ: Final = "Read"
_KEEP: Final = "Look after"
_SERVE: Final = "Serve"
_START: Final = "Start"

_CODES: Final = "\n".join(f"{int(code):>3}  {meaning}" for code, meaning in CODES)


class _Group(TyperGroup):
    """The group of all commands; every error of theirs becomes a message and an exit code here."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            taken_as_typed(command.get_params(ctx))
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        if args and args[0] in ("--show-completion", "--install-completion"):
            script(ctx, install=args[0] == "--install-completion", shell=next(iter(args[1:]), None))
        taken_as_typed(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- typer's own types moved between versions
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosedError from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401 -- click's
    ) -> Any:  # noqa: ANN401
        given = list(sys.argv[1:] if args is None else args)
        run = super().main
        sys.exit(
            guarded(
                lambda: run(args=args, prog_name=prog_name, complete_var=complete_var, standalone_mode=False, **extra),
                given,
            )
        )


app = typer.Typer(
    cls=_Group,
    name="backread",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from backread import __version__

        sys.stdout.write(f"backread {__version__}\n")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog=f"Exit codes:\n\n{_CODES}",
)
def _root(
    ctx: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and what is logged. Also: BACKREAD_DEBUG=1.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Long-term memory for LLM agents: every turn kept word for word, every line of memory cited.

    New here? `backread demo` shows it on a year of chats.
    """
    if debug:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command("demo", rich_help_panel=_START)(demo.demo)
app.command("doctor", rich_help_panel=_START)(doctor.doctor)
app.command("add", rich_help_panel=_WRITE)(add.add)
app.command("import", rich_help_panel=_WRITE)(importing.import_file)
app.command("build", rich_help_panel=_WRITE)(building.build)
app.command("delete", rich_help_panel=_WRITE)(deleting.delete)
app.command("search", rich_help_panel=_FIND)(searching.search)
app.command("recall", rich_help_panel=_FIND)(asking.recall)
app.command("ask", rich_help_panel=_FIND)(asking.ask)
app.command("users", rich_help_panel=_READ)(reading.users)
app.command("sessions", rich_help_panel=_READ)(reading.sessions)
app.command("show", rich_help_panel=_READ)(reading.show)
app.command("entries", rich_help_panel=_READ)(building.entries)
app.command("export", rich_help_panel=_READ)(exporting.export)
app.command("strategies", rich_help_panel=_READ)(parts.strategies)
app.command("plugins", rich_help_panel=_READ)(parts.plugins)
app.command("serve", rich_help_panel=_SERVE)(serving.serve)
app.command("mcp", rich_help_panel=_SERVE)(mcp.mcp)
app.command("verify", rich_help_panel=_KEEP)(keeping.verify)
app.command("scrub", rich_help_panel=_KEEP)(deleting.scrub)
app.command("backup", rich_help_panel=_KEEP)(saving.backup)
app.command("rescue", rich_help_panel=_KEEP)(saving.rescue)
app.command("reindex", rich_help_panel=_KEEP)(keeping.reindex)
app.command("stats", rich_help_panel=_KEEP)(keeping.stats)

_bench = typer.Typer()


@_bench.callback(invoke_without_command=True)
def _bench_root(ctx: typer.Context) -> None:
    """Measure memory designs: on benchmarks, or on your own history.

    For example: backread bench choose --user ann
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


_bench.command("run")(bench.run)
_bench.command("report")(bench.report)
_bench.command("compare")(bench.compare)
_bench.command("choose")(bench.choose)
app.add_typer(_bench, name="bench", rich_help_panel=_KEEP)

_new = typer.Typer()


@_new.callback(invoke_without_command=True)
def _new_root(ctx: typer.Context) -> None:
    """Write a package for a part of your own.

    For example: backread new strategy my_memory
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


_new.command("strategy")(parts.new_strategy)
app.add_typer(_new, name="new", rich_help_panel=_START)

_models = typer.Typer()


@_models.callback(invoke_without_command=True)
def _models_root(ctx: typer.Context) -> None:
    """List, find and fetch the weights of models.

    For example: backread models fetch minilm
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


_models.command("list")(models.list_models)
_models.command("path")(models.model_path)
_models.command("fetch")(models.fetch)
app.add_typer(_models, name="models", rich_help_panel=_KEEP)


def main() -> None:
    """Run `backread` with the arguments of the process, and exit."""
    open_streams()
    app()
