"""No reply is many times as long as its request, and merged ranges are the parts' own characters."""

import httpx
import pytest
from growing_texts import TEXTS
from service_server import serving

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service
from denoise_core.service.bodies import merge_small_rows

pytestmark = pytest.mark.enable_socket

QUERY = "Which item is one of two?"
DENOISER = ENDDenoiser(BM25Scorer(), keep=5, chunker="auto")


@pytest.fixture(scope="module")
def url():
    with serving(Service(DENOISER)) as served_url:
        yield served_url


def denoise(url, text):
    return httpx.post(
        url + "/v1/denoise", json={"query": QUERY, "passages": [text]}, timeout=60
    )


@pytest.mark.parametrize("name", TEXTS)
def test_a_reply_is_at_most_three_times_its_request_and_10_kb(url, name):
    reply = denoise(url, TEXTS[name](40_000))
    assert reply.status_code == 200
    assert len(reply.content) <= 3 * len(reply.request.content) + 10_000


def test_a_reply_whose_rows_repeat_a_long_id_is_refused(url):
    passage = {"text": TEXTS["headings without text"](60_000), "id": "é" * 1000}
    assert denoise(url, passage).status_code == 413


def covered(rows):
    places = set()
    for row in rows:
        places.update(range(row["start"], row["end"]))
    return places


def test_a_merged_range_has_its_parts_best_score():
    def row(start, end, score):
        return {"id": "a", "start": start, "end": end, "score": score}

    rows = [row(0, 1, 1.0), row(1, 2, 3.0), row(2, 3, None), row(3, 4, 2.0)]
    reply = {"kept": rows, "dropped": []}
    merge_small_rows(reply, 2)
    assert reply["kept"] == [row(0, 2, 3.0), row(2, 4, 2.0)]


def test_merged_ranges_cover_what_their_parts_cover(url):
    text = TEXTS["JSON records"](40_000)
    expected = DENOISER.denoise(QUERY, [Passage(text, "0")]).as_json()
    reply = denoise(url, text).json()
    assert reply["passages"] == expected["passages"]
    for name in ("kept", "dropped"):
        assert covered(reply[name]) == covered(expected[name])
    assert len(reply["dropped"]) < len(expected["dropped"])
