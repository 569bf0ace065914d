"""Results of an MCP server's tool, denoised before anything is made of them; the server here is in the process."""

import asyncio
from pathlib import Path

from mcp import Client
from mcp.server.mcpserver import MCPServer

from denoise_core import Passage, default_denoiser

server = MCPServer("handbook")


@server.tool()
def look_up(topic: str) -> list[str]:
    """Paragraphs of the handbook."""
    return Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")


async def main() -> None:
    question = "When does the bar close?"
    async with Client(server) as client:  # or Client("http://...") for a server elsewhere
        result = await client.call_tool("look_up", {"topic": question})
    texts = [block.text for block in result.content if block.type == "text"]
    passages = [Passage(text, f"block {n}", provenance="tool") for n, text in enumerate(texts)]
    cleared = await default_denoiser(keep=2).adenoise(question, passages)
    print(f"{len(texts)} blocks from the tool, {len(cleared.passages)} kept")
    for passage in cleared.passages:
        print(f"{passage.id}: {passage.text.strip()}")


asyncio.run(main())
