"""Denoising in a LangChain application over Chroma. What is new in it are the two marked lines."""

from pathlib import Path

from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from langchain_denoise import DenoisingRetriever, EmbeddedEmbeddings  # new

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
documents = [Document(page_content=text.strip(), id=f"p{n}") for n, text in enumerate(texts)]
store = Chroma("handbook", EmbeddedEmbeddings())  # or the embeddings you have
store.add_documents(documents)
retriever = store.as_retriever(search_kwargs={"k": 8})
better = DenoisingRetriever(retriever=retriever, order="score")  # new
prompt = ChatPromptTemplate.from_template("Answer from the context.\n\n{context}\n\nQuestion: {question}")
model = FakeListChatModel(responses=["16 euros."])  # your chat model

question = "How much does a night in the garage cost?"
for name, source in (("before", retriever), ("after", better)):
    chain = {"context": source, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    words = sum(len(d.page_content.split()) for d in source.invoke(question))
    print(f"{name}: {len(source.invoke(question))} documents, {words} words, answer: {chain.invoke(question)}")
for document in better.invoke(question):
    print(f"{document.metadata['denoise_score']:.2f}  {document.page_content[:60]}")
