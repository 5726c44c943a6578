from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

STEP = "@{0}.step\ndef step(doc):\n    return 1\n"
TWO = (
    "import holdfast\na = holdfast.Pipeline('alpha')\nb = holdfast.Pipeline('beta')\n"
    + STEP.format("a")
    + STEP.format("b")
)


def refused(holdfast: Run, *words: str) -> str:
    result = holdfast(*words)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_file_that_is_not_there_is_named_with_those_that_are(holdfast: Run) -> None:
    assert "there is no file paper.py" in refused(holdfast, "run", "paper.py")
    assert "Python files there: papers.py" in refused(holdfast, "run", "paper.py")


def test_a_module_that_is_not_there_is_refused(holdfast: Run) -> None:
    assert "no file and no module nothing" in refused(holdfast, "run", "nothing")
    for command in ("run", "plan"):
        assert "module 999" in refused(holdfast, command, "9" * 500)


def test_a_folder_where_the_pipeline_belongs_is_explained(holdfast: Run) -> None:
    assert "docs is a folder" in refused(holdfast, "run", "docs")


def test_a_module_can_be_named_instead_of_a_file(holdfast: Run, folder: Path) -> None:
    (folder / "package_of_mine").mkdir()
    (folder / "package_of_mine" / "__init__.py").touch()
    (folder / "package_of_mine" / "flow.py").write_text((folder / "papers.py").read_text())
    assert holdfast("run", "package_of_mine.flow", "docs").exit_code == 0


def test_with_several_pipelines_they_are_listed(holdfast: Run, folder: Path) -> None:
    (folder / "two.py").write_text(TWO)
    assert "two.py has 2 pipelines; say which: two.py:a, two.py:b" in refused(holdfast, "run", "two.py")
    assert "has no pipeline 'c'; it has: two.py:a, two.py:b" in refused(holdfast, "run", "two.py:c")


@pytest.mark.parametrize("name", ["b", "beta"])
def test_one_of_several_is_chosen_by_its_variable_or_its_name(holdfast: Run, folder: Path, name: str) -> None:
    (folder / "two.py").write_text(TWO)
    holdfast("run", f"two.py:{name}", "docs")
    assert holdfast("status", "beta").exit_code == 0


def test_a_file_without_a_pipeline_is_told_how_to_write_one(holdfast: Run, folder: Path) -> None:
    (folder / "empty.py").write_text("x = 1\n")
    assert 'write empty = holdfast.Pipeline("empty")' in refused(holdfast, "run", "empty.py")


def test_a_pipeline_without_steps_is_refused_before_anything_is_submitted(holdfast: Run, folder: Path) -> None:
    (folder / "bare.py").write_text("import holdfast\nbare = holdfast.Pipeline('bare')\n")
    assert "has no steps" in refused(holdfast, "run", "bare.py", "docs")


def test_an_import_error_shows_only_the_users_frames(holdfast: Run, folder: Path) -> None:
    (folder / "broken.py").write_text("import json\ndef read():\n    return json.loads('{')\nread()\n")
    told = refused(holdfast, "run", "broken.py")
    assert "broken.py cannot be imported; correct it and run the command again" in told
    assert 'broken.py", line 4' in told
    assert "JSONDecodeError" in told
    assert "importlib" not in told
    assert "json/decoder.py" not in told


def test_a_syntax_error_shows_its_line(holdfast: Run, folder: Path) -> None:
    (folder / "syntax.py").write_text("def x(:\n")
    assert 'syntax.py", line 1' in refused(holdfast, "run", "syntax.py")


def test_a_wrong_definition_shows_its_line_and_the_fix(holdfast: Run, folder: Path) -> None:
    (folder / "wrong.py").write_text("import holdfast\np = holdfast.Pipeline('p')\n@p.step\ndef s():\n    pass\n")
    told = refused(holdfast, "run", "wrong.py")
    assert 'wrong.py", line 3' in told
    assert "its body needs the document: def s(doc)" in told


def test_a_missing_import_inside_the_file_is_the_files_error(holdfast: Run, folder: Path) -> None:
    (folder / "needs.py").write_text("import no_such_package\n")
    assert "No module named 'no_such_package'" in refused(holdfast, "run", "needs.py")


def test_a_file_that_calls_sys_exit_is_reported_with_the_fix(holdfast: Run, folder: Path) -> None:
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    assert "it called sys.exit" in refused(holdfast, "run", "exits.py")


def test_a_file_named_like_a_standard_module_works(holdfast: Run, folder: Path) -> None:
    (folder / "json.py").write_text((folder / "papers.py").read_text())
    assert holdfast("run", "json.py", "docs").exit_code == 0


def test_dataclasses_in_the_file_work(holdfast: Run, folder: Path) -> None:
    (folder / "typed.py").write_text(
        "from __future__ import annotations\nimport dataclasses, holdfast\n@dataclasses.dataclass\nclass Page:\n"
        "    number: int\nt = holdfast.Pipeline('t')\n@t.step\ndef page(doc) -> Page:\n    return Page(1)\n"
    )
    assert holdfast("run", "typed.py", "docs").exit_code == 0


def test_a_renamed_step_is_refused_with_the_map_to_declare(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    source = (folder / "papers.py").read_text()
    (folder / "papers.py").write_text(source.replace("def extract", "def read").replace("extract", "read"))
    told = refused(holdfast, "run", "papers.py")
    assert f"2 at 'extract', such as '{Path.cwd()}/docs/a.txt', '{Path.cwd()}/docs/b.txt'" in told
    assert "Pipeline('papers', renamed={'extract': 'read'})" in told
