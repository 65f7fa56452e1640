"""Packages that only some runs need, asked for before the work and not after it."""

from collections.abc import Sequence
from importlib.util import find_spec

from tl_ffblock.corpus.settings import Config
from tl_ffblock.errors import InputError

EVERY_RUN = ("filelock", "jinja2", "matplotlib", "pandas", "pyarrow")


def require(packages: Sequence[str] = EVERY_RUN) -> None:
    """Refuse a run for which packages are missing.

    Raises:
        InputError: with the command that brings them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        extra = "experiments,ray" if "ray" in missing else "experiments"
        raise InputError(
            f"this run needs {', '.join(missing)}; in the folder of the repository run: "
            f'pip install -c constraints.txt ".[{extra}]"'
        )


def require_for(config: Config) -> None:
    """Refuse a run for which packages are missing that every run, or its engine, needs.

    Raises:
        InputError: with the command that brings them.
    """
    require((*EVERY_RUN, "ray") if config.engine == "ray" else EVERY_RUN)
