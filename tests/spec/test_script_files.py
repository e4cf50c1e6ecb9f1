from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import SpecError
from pgdyno.spec.workload import script_named
from pgdyno.user_file import read_text


def test_a_script_has_its_text_and_its_weight(tmp_path: Path) -> None:
    file = tmp_path / "orders.sql"
    file.write_bytes("select 'gr\u00fc\u00df';\r\nselect 2;\n".encode())
    script = script_named(f"{file}@3")
    assert (script.text, script.weight) == ("select 'gr\u00fc\u00df';\nselect 2;\n", 3)


def test_an_error_names_the_place_of_a_byte_outside_utf_8_and_a_way_out(tmp_path: Path) -> None:
    file = tmp_path / "latin1.sql"
    file.write_bytes("select 1;\nselect 'gr\u00fc\u00df';\n".encode("latin-1"))
    with pytest.raises(SpecError, match=r"latin1\.sql, line 2, column 11: byte 0xfc is not UTF-8"
    ) as caught:  # fmt: skip
        read_text(file)
    assert f"iconv -f LATIN1 -t UTF-8 {file}" in caught.value.hint


def test_the_warning_about_conversion_is_only_for_scripts(tmp_path: Path) -> None:
    hints = {}
    for name in ("latin1.sql", "latin1.toml"):
        (tmp_path / name).write_bytes("gr\u00fcn".encode("latin-1"))
        with pytest.raises(SpecError) as caught:
            read_text(tmp_path / name)
        hints[name] = caught.value.hint
    assert hints["latin1.sql"].endswith("use the copy: the server converts to its encoding")
    assert hints["latin1.toml"].endswith("latin1.toml > COPY, and use the copy")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_text(tmp_path / "nowhere.sql")
