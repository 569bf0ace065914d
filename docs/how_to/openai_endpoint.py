"""Any server of the OpenAI chat protocol (vLLM, Ollama, llama.cpp, a hosted one) clears the context by S2A.

vllm serve FOLDER --port 8000             BASE_URL=http://127.0.0.1:8000/v1
ollama serve                              BASE_URL=http://127.0.0.1:11434/v1
llama-server -m FILE.gguf --port 8080     BASE_URL=http://127.0.0.1:8080/v1
"""

import os

from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from langchain_denoise import DenoiseCompressor

model = ChatOpenAI(
    base_url=os.environ.get("BASE_URL", "http://127.0.0.1:8000/v1"),
    model=os.environ.get("MODEL", "served"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
    temperature=0,
    timeout=60,
)
compressor = DenoiseCompressor(model=model)  # the model names the sentences to keep; the text stays the source's
documents = [
    Document(page_content="The garage has thirty places. I think it is too dark! A night costs 16 euros.", id="a"),
    Document(page_content="Guests say that our pool is surely the finest of the whole coast.", id="b"),
]
for document in compressor.compress_documents(documents, "How much does a night in the garage cost?"):
    fell_back = document.metadata.get("denoise_fallback")
    print(document.id, repr(document.page_content), "| fell back:", fell_back)
