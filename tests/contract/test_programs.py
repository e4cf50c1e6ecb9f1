"""What the lab knows about a program before a run agrees with the engine."""

from __future__ import annotations

import pytest

from pgdyno.engine.engine_facts import engine_facts
from pgdyno.programs.program import Program
from pgdyno.programs.registry import programs

PROGRAMS = pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)


@PROGRAMS
def test_a_native_program_has_a_protocol_with_typed_parameters(program: Program) -> None:
    builtin = engine_facts().builtin(program.name)
    assert builtin is not None
    assert builtin.is_native
    assert program.protocol != "simple"


@PROGRAMS
def test_the_lab_names_types_of_the_engine_alone(program: Program) -> None:
    builtin = engine_facts().builtin(program.name)
    assert builtin is not None
    if program.types:
        # The engine's facts leave out types in the background, which are the last ones.
        foreground = [kind.name for kind in builtin.types]
        assert [kind.name for kind in program.types][: len(foreground)] == foreground


@PROGRAMS
def test_work_is_left_to_the_background_by_the_default_of_an_option(program: Program) -> None:
    builtin = engine_facts().builtin(program.name)
    assert builtin is not None
    if program.background is not None:
        values = {option.name: option.values for option in builtin.options}
        assert values[program.background.option][0] == program.background.when
