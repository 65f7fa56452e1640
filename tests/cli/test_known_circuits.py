"""`tl-ffblock known-circuits`."""

import pytest

from tests.cli.conftest import Command
from tl_ffblock import known_circuits as kc


def test_the_command_scores_a_method_of_yours(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its import path, with controls beside it and the number of cells; wrong names are one line."""
    monkeypatch.setattr(kc, "grid", lambda full: (("previous token", "token", kc.Settings()),))
    ran = command("known-circuits", "--method", "tl_ffblock.known_circuits:package_method", "--pairs", "1")
    assert ran.status == 0, ran.err
    assert "1 cells" in ran.out and "shuffled" in ran.out and "1 of 1 known circuits" in ran.out
    for given, said in ((("--method", "nothing"), "module:function"), (("--method", "no_such:f"), "no_such")):
        ran = command("known-circuits", *given)
        assert ran.status == 2 and said in ran.err
    assert command("known-circuits", "--programs", "none").status == 2
