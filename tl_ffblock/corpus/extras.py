"""Packages that only some runs need, asked for before the work and not after it."""

from importlib.util import find_spec

from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.errors import InputError

ALWAYS = ("filelock", "jinja2", "matplotlib", "pandas", "pyarrow")


def require(config: Config | None = None) -> None:
    """Refuse a run for which packages are missing.

    Raises:
        InputError: with the command that brings them.
    """
    wanted = [*ALWAYS]
    if config is not None:
        wanted += ["shap"] if "attribution-methods" in config.names else []
        wanted += ["ray"] if config.engine == "ray" else []
    missing = [name for name in wanted if find_spec(name) is None]
    if missing:
        extra = "experiments,ray" if "ray" in missing else "experiments"
        raise InputError(f'experiments need {", ".join(missing)}; run: pip install "tl-ffblock[{extra}]"')
