"""An agent's web search: the items of the tool's JSON list that do not fit the query never reach the model."""

import json

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from langchain_denoise.middleware import DenoiseToolResults


@tool
def web_search(query: str) -> str:
    """Search the web."""  # replace it by yours: what comes back is a JSON list, or text in paragraphs
    return json.dumps(
        [
            {"title": "Dom Luis I Bridge", "content": "The bridge in Porto was finished in 1886."},
            {"title": "10 best bars", "content": "Subscribe now! The best bars of Porto, chosen by our readers."},
            {"title": "Cookies", "content": "We value your privacy. Accept all cookies to go on reading."},
            {"title": "Flights", "content": "Cheap flights to Porto from 19 euros. Book today and save!"},
        ]
    )


class ScriptedModel(BaseChatModel):  # replace it by your chat model
    """Searches once, then says what it was shown."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **settings):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        reply = AIMessage(f"I was shown {len(messages[-1].text.split())} words.")
        if messages[-1].type != "tool":
            call = {"name": "web_search", "args": {"query": "When was the Dom Luis bridge finished?"}, "id": "1"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


question = {"messages": [("user", "When was the Dom Luis bridge in Porto finished?")]}
cut = DenoiseToolResults(tools=["web_search"], min_characters=0, keep=1, where="state")
for name, middleware in (("before", []), ("after", [cut])):
    agent = create_agent(ScriptedModel(), [web_search], middleware=middleware)
    messages = agent.invoke(question)["messages"]
    print(f"{name}: {messages[-1].text}")
print(messages[-2].text)
