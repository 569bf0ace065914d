"""What the laboratory's tests share with the Augmenter's."""

from tiny_augmenter import passages, question, tiny_bart, tiny_bert, tiny_t5  # noqa: F401
