"""Values: what cannot be a passage is refused where it enters, with the way out."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import (
    BudgetExceeded,
    InputError,
    MissingExtra,
    Passage,
    unique_ids,
)
from denoise_core._optional import require
from denoise_core.types import check_passages, replace_surrogates


@pytest.mark.parametrize("text", [None, 3, b"bytes", ["list"]])
def test_a_text_that_is_no_text(text):
    with pytest.raises(
        InputError,
        match=f"passage 'x': expected its text as a str, got {type(text).__name__}",
    ):
        Passage(text, "x")


def test_duplicate_ids_are_named_with_their_places_and_the_remedy():
    with pytest.raises(
        InputError, match=r"passages 0 and 2 share the id 'a'.*unique_ids"
    ):
        check_passages([Passage("1", "a"), Passage("2", "b"), Passage("3", "a")])


@given(
    st.lists(
        st.none()
        | st.sampled_from(["a", "a#2", "passage-0", "b"])
        | st.text(max_size=3),
        max_size=12,
    )
)
def test_unique_ids_are_unique_and_leave_the_first_of_each_alone(ids):
    out = unique_ids(ids)
    assert len(set(out)) == len(out) == len(ids)
    for name in {i for i in ids if i is not None}:
        assert out[ids.index(name)] == name


def test_a_missing_extra_tells_the_command():
    with pytest.raises(
        MissingExtra, match=r"'not_a_module' .* pip install 'rag-denoise\[end\]'"
    ):
        require("not_a_module", extra="end")


def test_values_and_errors_survive_copying():
    passage = Passage("t", "x", metadata={"a": [1]})
    assert copy.deepcopy(passage) == passage
    error = pickle.loads(pickle.dumps(BudgetExceeded("calls", 3, 3)))  # noqa: S301 - our own bytes
    assert error.resource == "calls"
    assert error.limit == 3
    assert error.spent == 3


def test_many_of_one_id_are_numbered_in_one_pass():
    names = unique_ids(["a"] * 30_000)
    assert names[1] == "a#2"
    assert names[-1] == "a#30000"


def test_half_characters_are_replaced_and_offsets_stay():
    assert replace_surrogates("a\ud83db") == "a\ufffdb"
    assert replace_surrogates("a😀b") == "a😀b"
