"""Text: chunks, sentences, words and facts with exact positions, and safe delimiters.

Comes in: any string (or a tool's result). Goes out: half-open character ranges that
tile it, its words and its facts. Read `structural` first: it decides how a text is
chunked. A new format gets a detector and a chunker like those of `records` and `markup`, and
a row in `structural`'s table. `chunk` splits sentences, `facts` compares texts,
`delimit` encloses untrusted text in prompts.
"""
