"""LangChain's values as the core's, and back.

Documents, messages, tools' results and the states of chains come in; passages and texts
of the core go out, and are written back in the shape they had. Read `documents.py` first:
one document becomes one passage. `chain_values.py` finds question, answer and evidence in
what chains pass on; `claims.py` decides which fields of an answer are judged; `history.py`
edits a conversation, or what a model reads of it. A new shape of chain output goes into `chain_values.py`.
"""
