from __future__ import annotations

import json
import os
from hashlib import blake2b
from pathlib import Path

import pytest

from holdfast.cli.document_args import LinkRule, documents_from_args
from holdfast.engine.file_documents import new_document
from tests.cli.conftest import Run
from tests.support.services.web_server import Handler, running_server


def keys(*words: str, **more: object) -> list[str]:
    """Return the keys of documents below the current folder, by their paths from there."""
    found = [new_document(one) for one in documents_from_args(words, **more)]  # type: ignore[arg-type]
    assert all(one.payload == {"path": one.key} for one in found)
    return [Path(one.key).relative_to(Path.cwd()).as_posix() for one in found]


def test_a_folder_is_walked_in_order_without_hidden_files(folder: Path) -> None:
    for name in ("z.txt", "sub/b.txt", "sub/a.txt", ".hidden", ".git/config", "__pycache__/x.pyc"):
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        (folder / "docs" / name).touch()
    assert keys("docs") == ["docs/a.txt", "docs/b.txt", "docs/sub/a.txt", "docs/sub/b.txt", "docs/z.txt"]
    assert keys("./docs/") == keys("docs")


def test_a_link_to_a_folder_above_does_not_loop(folder: Path) -> None:
    (folder / "docs" / "up").symlink_to(folder / "docs")
    assert keys("docs") == ["docs/a.txt", "docs/b.txt"]


def test_a_link_that_leads_to_itself_or_nowhere_is_no_file(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "loop.txt").symlink_to("loop.txt")
    (folder / "docs" / "nowhere.txt").symlink_to("missing.txt")
    assert keys("docs") == ["docs/a.txt", "docs/b.txt"]
    assert keys("docs/*.txt") == ["docs/a.txt", "docs/b.txt"]
    assert "submitted: 2 new" in holdfast("run", "papers.py", "docs").stdout


def test_a_glob_gives_files_in_order(folder: Path) -> None:
    (folder / "docs" / "c.pdf").touch()
    assert keys("docs/*.txt") == ["docs/a.txt", "docs/b.txt"]
    assert keys("**/*.pdf") == ["docs/c.pdf"]


def test_a_file_carries_its_absolute_path_and_a_mark_of_its_content(folder: Path) -> None:
    os.utime(folder / "docs" / "a.txt", ns=(5, 5))
    one = new_document(next(documents_from_args(["docs/a.txt"])))
    assert one.key == str(folder / "docs" / "a.txt")
    assert one.payload == {"path": one.key}
    assert one.fingerprint == f"file:5:5:{blake2b(b'a.txt', digest_size=32).hexdigest()}"


def test_the_stores_own_files_and_the_pipeline_are_not_documents(holdfast: Run) -> None:
    holdfast("run", "papers.py", ".")
    assert "submitted: 0 new, 0 changed, 2 unchanged" in holdfast("run", "papers.py", ".").stdout


@pytest.mark.parametrize(
    ("word", "told"), [("c.pdf", "there is no file or folder c.pdf"), ("*.pdf", "no file matches *.pdf")]
)
def test_what_names_nothing_is_refused_before_anything_is_submitted(holdfast: Run, word: str, told: str) -> None:
    result = holdfast("run", "papers.py", "docs", word)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "no pipelines" in holdfast("status").stdout


def test_a_file_that_several_arguments_name_is_submitted_once(holdfast: Run, folder: Path) -> None:
    (folder / "link").symlink_to("docs")
    assert keys("docs/*.txt", "link", "./docs/../docs/a.txt", "docs") == ["docs/a.txt", "docs/b.txt"]
    assert "submitted: 2 new" in holdfast("run", "papers.py", "docs", "docs/a.txt").stdout


def test_a_key_that_is_named_twice_is_refused(holdfast: Run) -> None:
    result = holdfast("run", "papers.py", "-", stdin='{"key": "a"}\n{"key": "a"}\n')
    assert result.exit_code == 2
    assert "'a' was named twice" in result.stderr


def test_stdin_gives_paths_keys_and_json_lines(holdfast: Run) -> None:
    lines = 'docs/a.txt\n\nPMID-1\n{"key": "order-1", "payload": {"lines": 3}}\n'
    assert "submitted: 3 new" in holdfast("submit", "papers.py", "-", stdin=lines).stdout
    assert json.loads(holdfast("show", "order-1", "--json").stdout)["payload"] == {"lines": 3}
    assert json.loads(holdfast("show", "docs/a.txt", "--json").stdout)["fingerprint"]
    assert json.loads(holdfast("show", "PMID-1", "--json").stdout)["payload"] == {"path": "PMID-1"}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"key": 3}', "Expected `str`, got `int` - at `$.key`"),
        ('{"payload": 3}', "missing required field `key`"),
        ('{"key": "a", "payloda": 3}', "unknown field `payloda`"),
        ('{"key": "a"', "line 2 of stdin"),
        ('{"key": ""}', "empty key"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(holdfast: Run, line: str, told: str) -> None:
    result = holdfast("submit", "papers.py", "-", stdin=f"fine\n{line}\n")
    assert result.exit_code == 2
    assert "line 2 of stdin" in result.stderr
    assert told in result.stderr


def test_a_file_name_that_is_not_utf_8_is_refused_by_name(holdfast: Run, folder: Path) -> None:
    try:
        (folder / "docs" / os.fsdecode(b"\xff.txt")).touch()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    result = holdfast("run", "papers.py", "docs")
    assert result.exit_code == 2
    assert "is not UTF-8" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        ("show", "\udcff.txt"),
        ("dead", "list", "--text", "\udcff"),
        ("doc", "cancel", "\udcff*", "--reason", "x"),
    ],
)
def test_a_word_that_no_store_could_have_is_refused(holdfast: Run, line: tuple[str, ...]) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast(*line)
    assert result.exit_code == 2
    assert "is not valid UTF-8" in result.stderr


def test_output_files_may_have_any_name(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    odd = os.fsdecode(b"\xff.json")
    assert holdfast("doc", "pack", "docs/a.txt", "-o", odd).exit_code == 0
    assert (folder / odd).exists()


def test_a_folder_that_no_store_could_have_is_refused(
    holdfast: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy", reason="document search needs the extra rag")
    (odd := folder / os.fsdecode(b"\xff")).mkdir()
    (odd / "a.txt").write_text("An anchor.")
    monkeypatch.chdir(odd)
    result = holdfast("ingest", ".")
    assert result.exit_code == 2
    assert "is not valid UTF-8" in result.stderr


def test_documents_are_read_one_at_a_time(folder: Path) -> None:
    """The first document is returned before the last one is read."""
    documents = documents_from_args(["docs", "-"])
    assert new_document(next(iter(documents))).key.endswith("/docs/a.txt")


def test_a_link_out_of_the_folder_is_skipped_and_counted(holdfast: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.txt").write_text("secret")
    (folder / "docs" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "docs" / "inner.txt").symlink_to("a.txt")
    (folder / "docs" / "there").symlink_to(tmp_path / "elsewhere")
    rule = LinkRule()
    assert keys("docs", links=rule) == ["docs/a.txt", "docs/b.txt", "docs/inner.txt"]
    assert rule.skipped == 1
    rule = LinkRule()
    assert keys("docs/*.txt", "docs/*/*.txt", links=rule) == ["docs/a.txt", "docs/b.txt", "docs/inner.txt"]
    assert rule.skipped == 2
    assert keys("docs/link.txt") == ["docs/link.txt"], "a link that a person names is followed"
    assert "docs/link.txt" in keys("docs", links=LinkRule(follow=True))
    for command in ("run", "submit"):
        said = holdfast(command, "papers.py", "docs").output
        assert "skipped 1 link that leads outside of the folder, such as docs/link.txt; --follow-symlinks" in said
    assert "submitted: 1 new" in holdfast("submit", "papers.py", "docs", "--follow-symlinks").output


def test_the_same_folder_named_three_ways_is_the_same_documents(
    holdfast: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "submitted: 2 new" in holdfast("submit", "papers.py", "docs").stdout
    (folder / "link").symlink_to("docs")
    for named in ("./docs/", "link", f"{folder}/link/../docs", f"file://{folder}/docs", "docs/*.txt"):
        assert "0 new, 0 changed, 2 unchanged" in holdfast("submit", "papers.py", named).stdout
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    store = ("--store", f"sqlite:///{folder}/holdfast.db")
    lines = f"../docs/a.txt\n{folder}/docs/b.txt\n"
    assert "0 new, 0 changed, 2 unchanged" in holdfast("submit", "../papers.py", "-", *store, stdin=lines).stdout
    assert holdfast("work", "../papers.py", "--drain", *store).exit_code == 0


@pytest.mark.parametrize(
    "typed", ["a.txt", "./a.txt", "../docs/a.txt", "{folder}/link/a.txt", "file://{folder}/docs/a.txt"]
)
def test_a_document_is_found_by_its_path_as_typed(
    holdfast: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    holdfast("run", "papers.py", "docs")
    (folder / "link").symlink_to("docs")
    monkeypatch.chdir(folder / "docs")
    store = ("--store", f"sqlite:///{folder}/holdfast.db")
    for verb in ("show", "explain"):
        assert holdfast(verb, typed.format(folder=folder), *store).exit_code == 0
    assert holdfast("show", typed.format(folder=folder), *store).stdout.startswith("a.txt  in batch")


def test_a_pattern_of_paths_is_relative_to_the_current_folder(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert "1 document cancelled" in holdfast("doc", "cancel", "docs/a*", "--reason", "x").stdout


def test_touched_files_are_unchanged(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    os.utime(folder / "docs" / "a.txt", ns=(5, 5))
    assert "0 new, 0 changed, 2 unchanged" in holdfast("run", "papers.py", "docs").stdout


def test_a_line_of_stdin_may_have_a_fingerprint(holdfast: Run) -> None:
    line = '{{"key": "order-1", "payload": {}, "fingerprint": "{}"}}\n'
    assert "1 new" in holdfast("submit", "papers.py", "-", stdin=line.format(1, "one")).stdout
    assert "1 unchanged" in holdfast("submit", "papers.py", "-", stdin=line.format(2, "one")).stdout
    assert "1 changed" in holdfast("submit", "papers.py", "-", stdin=line.format(2, "two")).stdout


def test_a_url_is_submitted_by_its_canonical_form_without_a_download(holdfast: Run) -> None:
    pytest.importorskip("httpx2", reason="URLs need httpx2: pip install 'holdfast-pipelines[rag]'")
    with running_server(Handler) as server:
        url = server.url("/document.pdf")
        assert "--allow-private" in holdfast("submit", "papers.py", url).stderr
        assert "1 new" in holdfast("submit", "papers.py", url, "--allow-private").stdout
        again = url.replace("http://", "HTTP://").replace("/document", "/x/../document") + "#page=2"
        assert "1 unchanged" in holdfast("submit", "papers.py", again, "--allow-private").stdout
        assert "1 unchanged" in holdfast("submit", "papers.py", "-", "--allow-private", stdin=f"{url}\n").stdout
        assert {request.partition(" ")[0] for request in server.requests} == {"HEAD"}
    assert json.loads(holdfast("show", url, "--json").stdout)["payload"] == {"url": url}


def test_a_url_that_cannot_be_reached_is_an_error(holdfast: Run) -> None:
    pytest.importorskip("httpx2", reason="URLs need httpx2: pip install 'holdfast-pipelines[rag]'")
    with running_server(Handler) as server:
        url = server.url("/document.pdf")
    result = holdfast("submit", "papers.py", url, "--allow-private")
    assert result.exit_code != 0
    assert "does not answer" in result.stderr
