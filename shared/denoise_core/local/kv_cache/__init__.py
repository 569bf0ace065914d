"""What a model has computed of a text, kept: for the next question, and to go on from."""
