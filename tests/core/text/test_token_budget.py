"""A budget never spends more than its limit, and one estimate serves all who have no tokenizer."""

from hypothesis import given
from hypothesis import strategies as st

from denoise_core.text.token_budget import TokenBudget, estimate_tokens


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(0, 20))
def test_what_fits_is_paid_and_nothing_else(texts, limit):
    budget = TokenBudget(limit, len)
    for text in texts:
        remaining = budget.remaining_tokens
        fits = len(text) <= remaining
        assert budget.try_add(text) == fits
        assert budget.remaining_tokens == remaining - fits * len(text)
    assert 0 <= budget.spent_tokens <= limit


@given(
    st.text(alphabet="abc é.", max_size=40),
    st.text(alphabet="東京タワー🗼", max_size=10),
)
def test_four_letters_are_a_token_and_a_wide_character_is_one(narrow_text, wide_text):
    assert estimate_tokens(narrow_text + wide_text) == -(-len(narrow_text) // 4) + len(
        wide_text
    )
