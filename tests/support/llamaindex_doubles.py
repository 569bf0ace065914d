"""A LlamaIndex model that calls tools, with nothing in it that only some versions of LlamaIndex have."""

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


def calls(name, usage=None, **arguments):
    call = {"tool_id": "call-1", "tool_name": name, "tool_kwargs": arguments}
    return ChatMessage(
        role="assistant",
        content="",
        additional_kwargs={"calls": [call], **(usage or {})},
    )


class Calling(FunctionCallingLLM):
    """``script(messages, tools=...)`` gives each message; streams hand it out by characters."""

    script: object
    calls_functions: bool = True

    @property
    def metadata(self):
        return LLMMetadata(
            is_chat_model=True, is_function_calling_model=self.calls_functions
        )

    def chat(self, messages, **kwargs):
        message = self.script(list(messages), **kwargs)
        return ChatResponse(message=message, delta=message.content)

    def stream_chat(self, messages, **kwargs):
        whole = self.chat(messages, **kwargs).message
        settings = {"role": "assistant", "additional_kwargs": whole.additional_kwargs}
        shown = ""
        for piece in whole.content or [""]:
            shown += piece
            yield ChatResponse(message=ChatMessage(shown, **settings), delta=piece)

    async def achat(self, messages, **kwargs):
        return self.chat(messages, **kwargs)

    async def astream_chat(self, messages, **kwargs):
        async def pieces():
            for piece in self.stream_chat(messages, **kwargs):
                yield piece

        return pieces()

    def complete(self, prompt, formatted=False, **kwargs):
        reply = self.chat([ChatMessage(role="user", content=prompt)])
        return CompletionResponse(text=reply.message.content)

    async def acomplete(self, prompt, formatted=False, **kwargs):
        return self.complete(prompt)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError("a chat model streams messages")

    astream_complete = stream_complete

    def _prepare_chat_with_tools(
        self,
        tools,
        user_msg=None,
        chat_history=None,
        verbose=False,
        allow_parallel_tool_calls=False,
        tool_required=False,
        **kwargs,
    ):
        messages = list(chat_history or [])
        if user_msg:
            messages.append(
                ChatMessage(user_msg) if isinstance(user_msg, str) else user_msg
            )
        return {"messages": messages, "tools": tools}

    def get_tool_calls_from_response(
        self, response, error_on_no_tool_call=True, **kwargs
    ):
        built = response.message.additional_kwargs.get("calls", [])
        if not built and error_on_no_tool_call:
            raise ValueError("expected a tool call")
        return [ToolSelection(**call) for call in built]


def scripted_llm(reply):
    """A chat model without tools that says this, or what this function of its messages gives."""

    def script(messages, **kwargs):
        text = reply(messages) if callable(reply) else reply
        return ChatMessage(text, role="assistant")

    return Calling(script=script, calls_functions=False)
