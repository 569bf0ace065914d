"""Chats, agents, workflows and agent tools with checked answers and denoised results.

Read `chat` first: checks of a chat engine. `checked` does the same for agents and
workflows, whose drafts are held back; `denoised` removes noise from the results of an
agent's tools. Support for another kind of agent goes into `checked`.
"""
