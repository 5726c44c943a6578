"""A pipeline with all three shapes of bodies is killed on both sides of every commit point, on both stores."""

from __future__ import annotations

import mistaken
import pytest
import three_shapes

from holdfast.testing.crash import Differs, crash_everywhere


def test_all_three_shapes_survive_a_kill_at_every_commit_point(server):
    report = crash_everywhere(
        three_shapes.letters, three_shapes.documents(), store=server, prepare=three_shapes.prepare
    )
    assert report.states == {"done": 3}
    assert report.points > 20  # not exact: when commits are slow, more moves share one
    assert report.kills > report.points  # before and after each point; a claim has only an "after"
    assert report.slowest_resume < 5  # seconds: nothing waits until a lease is over


def test_the_mistake_in_the_example_is_found_and_named():
    with pytest.raises(Differs) as found:
        crash_everywhere(mistaken.shop, mistaken.documents(), prepare=mistaken.prepare)
    message = str(found.value)
    assert "right before the commit of 'order-1' at step 'charge', cursor 1, going to the end" in message
    assert "table charge: duplicate: customer='order-1', article='cup', cents=900" in message


def test_the_corrected_example_survives():
    assert crash_everywhere(mistaken.corrected(), mistaken.documents(), prepare=mistaken.prepare).passed
