"""LangChain 1.5's own middleware around ours: a router that asks a `Choice`, auto mode, refusals."""

import json

import pytest
from langchain.agents import create_agent, middleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from pydantic import Field

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise.middleware import DenoiseToolResults, VerificationMiddleware
from langchain_denoise.testing import FunctionChatModel

pytestmark = [
    pytest.mark.skipif(
        not hasattr(middleware, "ModelRouterMiddleware"), reason="langchain before 1.5 has no router"
    ),
    pytest.mark.filterwarnings("ignore"),
]
FOUND = {"results": [{"title": f"Town {n}", "content": "Rain. " * 60} for n in range(9)]}
FOUND["results"][3] = {"title": "Paris", "content": "Paris is dry."}


@tool
def search(query: str) -> str:
    """Looks things up."""
    return json.dumps(FOUND)


def reply(messages):
    if messages[-1].type == "human":
        return AIMessage("", tool_calls=[{"name": "search", "args": {"query": "dry town"}, "id": "call-1"}])
    return "Paris is dry."


def classifier(risk):
    """A decision model that takes the first of several choices, and finds each call as risky as told."""
    from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

    class Decides(BaseDecisionModel):
        model: str = "decides"

        @property
        def _provider(self):
            return "test"

        def _classify(self, state, questions):
            answers = {}
            for name, asked in questions.items():
                if asked.type == "noul":
                    answers[name] = {"type": "noul", "noul": risk}
                else:
                    labels = list(asked.criteria)
                    sure = {label: float(n == 0) for n, label in enumerate(labels)}
                    answers[name] = {"type": "choice", "choice": labels[0], "nouls": sure, "confidence": 1.0,
                                     "probabilities": sure, "label": labels[0]}  # fmt: skip
            return ClassifierResponse.model_validate({"model": "decides", "answers": answers})

    return Decides()


@pytest.mark.parametrize("risk", [0.0, 1.0], ids=["allowed", "blocked"])
async def test_ours_work_inside_the_router_auto_mode_and_refusals(kit, risk):
    routed, other = kit.chat(reply), kit.chat(lambda m: "I am another model.")
    choices = {
        "facts": middleware.model_router.ModelChoice(model=routed, criteria="facts"),
        "chat": middleware.model_router.ModelChoice(model=other, criteria="chat"),
    }
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5)
    agent = create_agent(
        other,
        [search],
        middleware=[
            middleware.ModelRouterMiddleware(choices=choices, instructions="Which?", classifier=classifier(risk)),
            middleware.AutoModeMiddleware(tools=[search], classifier=classifier(risk)),
            middleware.ModelRefusalMiddleware(),
            DenoiseToolResults(denoiser),
            VerificationMiddleware(),
        ],
    )
    said = (await agent.ainvoke({"messages": [HumanMessage("Is it dry in Paris?")]}))["messages"]
    result = next(m for m in said if m.type == "tool")
    assert said[-1].text == "Paris is dry."
    outcome = said[-1].response_metadata["denoise"]["outcome"]
    if risk:
        assert (result.status, outcome) == ("error", "unknown")
    else:
        assert [r["title"] for r in json.loads(result.text)["results"]] == ["Paris"]
        assert outcome == "supported"


class Provided(FunctionChatModel):
    """A model of a provider that searches among tools itself."""

    bound: list = Field(default_factory=list)

    def bind_tools(self, tools, **kwargs):
        self.bound.append(tools)
        return self

    def _get_ls_params(self, stop=None, **kwargs):
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "anthropic"}


async def asked(model, tools, *own):
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5)
    agent = create_agent(model, tools, middleware=[*own, DenoiseToolResults(denoiser), VerificationMiddleware()])
    said = (await agent.ainvoke({"messages": [HumanMessage("Is it dry in Paris?")]}))["messages"]
    assert said[-1].response_metadata["denoise"]["outcome"] == "supported"
    return next(m for m in said if m.type == "tool")


async def test_tools_that_the_provider_searches_for_are_read_as_others_are():
    model = Provided(reply=reply)
    result = await asked(model, [search], middleware.ProviderToolSearchMiddleware(searchable_tools=[search]))
    assert [r["title"] for r in json.loads(result.text)["results"]] == ["Paris"]
    assert model.bound[0][0].extras == {"defer_loading": True}


@pytest.fixture
def towns():
    """The tools of an MCP server, by LangChain's own adapter."""
    fastmcp, _ = pytest.importorskip("fastmcp"), pytest.importorskip("jsonschema")  # read late, in the loop
    adapters = pytest.importorskip("langchain.mcp", exc_type=ImportError)
    server = fastmcp.FastMCP("towns")

    @server.tool(name="search")
    def looked_up(query: str) -> dict:
        """Looks things up."""
        return FOUND

    return adapters.MCPAdapter(server)


async def test_content_and_structure_of_an_mcp_server_are_cut_alike(kit, towns):
    async with towns:
        result = await asked(kit.chat(reply), await towns.list_tools())
    left = {"results": [{"title": "Paris", "content": "Paris is dry."}]}
    assert (json.loads(result.text), result.artifact["structured_content"]) == (left, left)
