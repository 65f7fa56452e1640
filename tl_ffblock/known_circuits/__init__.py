"""Known circuits: compiled models with edges that are known by construction, and scores of methods against them."""

from tl_ffblock.known_circuits.compiler import Head, Layout, Match, Neurons, Settings
from tl_ffblock.known_circuits.known import KnownCircuit, build, read_program
from tl_ffblock.known_circuits.programs import PROGRAMS, Kind, Pair, Program
from tl_ffblock.known_circuits.scores import (
    CONTROLS,
    MEASURES,
    CircuitScores,
    grid,
    package_method,
    package_methods,
    score,
    score_grid,
)

__all__ = [
    "CONTROLS",
    "MEASURES",
    "PROGRAMS",
    "CircuitScores",
    "Head",
    "Kind",
    "KnownCircuit",
    "Layout",
    "Match",
    "Neurons",
    "Pair",
    "Program",
    "Settings",
    "build",
    "grid",
    "package_method",
    "package_methods",
    "read_program",
    "score",
    "score_grid",
]
