"""A table of options means what click's options with the same arguments mean."""

from __future__ import annotations

import click

from pgdyno.cli.headings import HeadedOption
from pgdyno.cli.option_table import table


def test_each_word_of_a_table_is_a_setting_of_its_option() -> None:
    @click.command()
    @table(
        """
        Crashes
        -c --clients --client N:1..1000 =8 *
            Number of clients (default 8),
            in two lines.
        --crash (only) N:1..  One crash.
        --ratio R:0.5..1.0 ...  A ratio, again and again.
        Answer
        --kind kill|power  A word of two.
        --of PERIOD|RESULT =  A word with a bar.
        --data-dir PATH  A folder.
        -q  A flag.
        """,
        ratio={"required": True},
    )
    def command() -> None:
        pass

    options = {option.name: option for option in command.params if isinstance(option, HeadedOption)}
    assert list(options) == ["clients", "only", "ratio", "kind", "of", "data_dir", "q"]
    clients, only, ratio, kind, of, data_dir, q = options.values()
    assert clients.opts == ["-c", "--clients", "--client"]
    assert (clients.help, clients.first) == ("Number of clients (default 8), in two lines.", True)
    context = click.Context(command)
    assert clients.get_default(context) == "8"
    assert clients.type_cast_value(context, "8") == 8
    assert isinstance(only.type, click.IntRange)
    assert (only.type.min, only.type.max, only.first) == (1, None, False)
    assert isinstance(ratio.type, click.FloatRange)
    assert (ratio.type.min, ratio.multiple, ratio.required) == (0.5, True, True)
    assert isinstance(kind.type, click.Choice)
    assert tuple(kind.type.choices) == ("kill", "power")
    assert (of.metavar, of.get_default(context)) == ("PERIOD|RESULT", "")
    assert isinstance(data_dir.type, click.Path)
    assert q.is_flag
    assert [option.heading for option in options.values()] == ["Crashes"] * 3 + ["Answer"] * 4
