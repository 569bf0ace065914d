"""What the laboratory's tests share with the Augmenter's."""

from tiny_augmenter import passages, question  # noqa: F401
