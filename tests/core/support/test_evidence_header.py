"""What a judge reads with a passage: the source's own metadata, not what denoising wrote into it."""

from denoise_core import Passage
from denoise_core.support.labels import passage_header


def test_the_header_leaves_out_what_denoising_wrote():
    written_text = {
        "relevance_score": 0.7,
        "denoise_origin": "a",
        "denoise_score": 0.7,
        "denoise_coverage": 1.0,
    }
    assert (
        passage_header(
            Passage("Text.", "p", metadata={"title": "Tower", **written_text})
        )
        == "title: Tower"
    )
