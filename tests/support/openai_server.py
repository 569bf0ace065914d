"""A local server that speaks the OpenAI protocol and answers nonsense or by a given model, with faults on demand.

Both adapters' tests of a real client talk to it, by the fixture ``server``: `serving` gives a running `Server`.
"""

import hashlib
import json
from functools import partial

from local_server import FaultyServer, JSONHandler, completion, listening

NEW_TOKENS = 12
NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")  # no reply that is a selection


class Nonsense:
    """Answers as an untrained model does: letters that depend on the prompt."""

    def reply(self, text):
        data = text.encode("utf-8", "replace")
        letters = hashlib.sha256(data).hexdigest()[:NEW_TOKENS]
        return letters.translate(NO_DIGITS), len(data)


class Server(FaultyServer):
    """Serves ``/v1/chat/completions``.

    ``fields``: what a request that has to call a tool or to keep to a schema is answered with, as a server does
    that holds its model to a grammar; None has the model write text after all. ``refuses``: words that a content
    filter answers with 400.
    """

    def __init__(self, model):
        super().__init__(Handler)
        self.model = model
        self.fields = None
        self.refuses = "\0"


class Handler(JSONHandler):
    def do_POST(self):
        asked = self.read_json()
        with self.server.taken(asked) as fault:
            send = self._answer(self.server, asked, fault)
        send()  # only now: who has the reply may ask again before this thread goes on, and would be counted twice

    def _answer(self, server, asked, fault):
        """The reply to a request, as the function that sends it."""
        prompts = [message["content"] for message in asked["messages"]]
        if any(server.refuses in prompt for prompt in prompts):
            fault = 400
        if isinstance(fault, int):
            error = {"message": f"fault {fault}", "type": "fault"}
            return partial(self._send, fault, {"error": error})
        if fault == "hang":
            server.release.wait(30)
            return self._hang_up
        text, count = server.model.reply("\n".join(prompts))
        reply = completion(text, count, NEW_TOKENS)
        if asked.get("stream"):
            return partial(self._stream, reply, text, broken=fault == "break")
        fields = json.dumps(server.fields)
        message = reply["choices"][0]["message"]
        if asked.get("response_format") and server.fields is not None:
            message["content"] = fields
        if asked.get("tools") and server.fields is not None:
            name = asked["tools"][0]["function"]["name"]
            function = {"name": name, "arguments": fields}
            call = {"id": "call-1", "type": "function", "function": function}
            message["tool_calls"] = [call]
        return partial(self._send, 200, reply)

    def _hang_up(self):
        self.close_connection = True

    def _send(self, status, body):
        self.send_json(status, body, retry_after_ms="1")

    def _stream(self, about, text, broken):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")  # so that a cut is seen
        self.end_headers()
        about["object"] = "chat.completion.chunk"
        usage = about.pop("usage")
        choice = {"index": 0, "finish_reason": None}
        for i, piece in enumerate(text):
            if broken and i == len(text) // 2:
                self.close_connection = True
                self.connection.close()
                return
            choice["delta"] = {"role": "assistant", "content": piece}
            self._event(json.dumps({**about, "choices": [choice]}))
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self._event(json.dumps({**about, "choices": [last]}))
        self._event(json.dumps({**about, "choices": [], "usage": usage}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data):
        line = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()


def serving(model):
    return listening(Server(model))
