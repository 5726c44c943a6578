"""Marks of running documents: which ones a reader finds, and which ones belong to the present thread."""

from __future__ import annotations

import threading

from holdfast.engine.crash_evidence.running_marks import BODIES, COMMITS, RunningMarks, running_documents


def test_documents_of_threads_and_tasks_are_found_until_they_end() -> None:
    marks = RunningMarks()
    thread, task = marks.enter_thread(), marks.take_cell()
    marks.cells[thread] = 7
    marks.begin(task, 8)
    assert running_documents(marks.cells) == {7, 8}
    marks.end(task)
    marks.leave_thread(thread)
    assert running_documents(marks.cells) == frozenset()


def test_documents_of_a_commit_are_found_until_it_ends() -> None:
    marks = RunningMarks()
    marks.committing([3, 4])
    assert running_documents(marks.cells) == {3, 4}
    marks.committed()
    marks.committing([5])
    assert running_documents(marks.cells) == {5}


def test_with_more_documents_than_cells_nobody_knows_which_run() -> None:
    marks = RunningMarks()
    cells = [marks.take_cell() for _ in range(len(BODIES) + 1)]
    for cell in cells:
        marks.begin(cell, 1)
    assert running_documents(marks.cells) is None
    marks.end(cells[-1])
    assert running_documents(marks.cells) == {1}
    marks.committing(range(1, len(COMMITS) + 2))
    assert running_documents(marks.cells) is None


def test_a_cell_is_used_again() -> None:
    marks = RunningMarks()
    for number in range(3 * len(BODIES)):
        cell = marks.take_cell()
        marks.begin(cell, number)
        marks.end(cell)
    assert running_documents(marks.cells) == frozenset()


def test_each_thread_knows_the_document_that_it_runs() -> None:
    marks = RunningMarks()
    found: list[frozenset[int]] = []

    def run() -> None:
        cell = marks.enter_thread()
        marks.cells[cell] = 9
        found.append(marks.of_this_thread())
        marks.cells[cell] = 0
        found.append(marks.of_this_thread())
        marks.committing([1, 2])
        found.append(marks.of_this_thread())
        marks.committed()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [{9}, set(), {1, 2}]
    assert marks.of_this_thread() == frozenset()


def test_the_thread_of_the_event_loop_runs_all_tasks_and_no_thread() -> None:
    marks = RunningMarks()
    thread = threading.Thread(target=lambda: marks.cells.__setitem__(marks.enter_thread(), 5))
    thread.start()
    thread.join()
    marks.enter_loop_thread()
    for number in (6, 7):
        marks.begin(marks.take_cell(), number)
    assert marks.of_this_thread() == {6, 7}


def test_detached_marks_change_no_table_of_others() -> None:
    marks = RunningMarks()
    cell, shared = marks.take_cell(), marks.cells
    marks.begin(cell, 4)
    marks.detach()
    marks.begin(cell, 5)
    assert running_documents(shared) == {4}
