#!/usr/bin/env python3
"""oracle_openai.py BASE_URL [API_KEY]: the `openai` package as a client of a running server.

    ./hedge serve --port 8080 & .venv/bin/python tools/oracle_openai.py http://127.0.0.1:8080/v1

Checks what must hold whatever the model says: the package parses every reply and chunk; a stream
adds up to the reply that is not streamed; tool calls come name first and whole, their arguments
add up to a JSON object; usage counts; errors arrive as the package's own exceptions.
Exit status: 0 all held, 1 not, 77 when openai is missing."""

import json
import sys

try:
    import openai
except ImportError:
    print("skip: needs openai (pip install openai)")
    sys.exit(77)

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a shell command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
USER = [{"role": "user", "content": "List the files in the current directory."}]
GREEDY = {"temperature": 0, "seed": 42, "max_completion_tokens": 64}
FINISH = {"stop", "length", "tool_calls"}
failures = 0


def check(ok, what, detail=""):
    global failures
    if not ok:
        failures += 1
        print(f"FAILED: {what} {detail}")


def merge(stream):
    """Adds up a stream as an agent does; returns what the whole reply would hold."""
    text, reasoning, calls, finish, usage, n = "", "", {}, None, None, 0
    for chunk in stream:
        n += 1
        check(chunk.object == "chat.completion.chunk", "chunk object", chunk.object)
        if chunk.usage:
            check(chunk.choices == [], "the usage chunk has no choices")
            usage = chunk.usage
        for choice in chunk.choices:
            check(finish is None, "no choice after the finish reason")
            delta = choice.delta
            text += delta.content or ""
            reasoning += getattr(delta, "reasoning_content", None) or ""
            for part in delta.tool_calls or []:
                if part.index not in calls:
                    check(part.index == len(calls), "calls are numbered from 0", part.index)
                    check(bool(part.id) and bool(part.function.name), "a call begins with its name")
                    check(part.type == "function", "type of a call", part.type)
                    calls[part.index] = {"name": part.function.name, "arguments": ""}
                else:
                    check(not part.id and not part.function.name, "a name comes once")
                calls[part.index]["arguments"] += part.function.arguments or ""
            finish = choice.finish_reason or finish
    check(finish in FINISH, "finish reason of a stream", finish)
    return {"text": text, "reasoning": reasoning, "calls": list(calls.values()), "finish": finish,
            "usage": usage, "chunks": n}


def whole(reply):
    message = reply.choices[0].message
    calls = [{"name": c.function.name, "arguments": c.function.arguments}
             for c in message.tool_calls or []]
    return {"text": message.content or "",
            "reasoning": getattr(message, "reasoning_content", None) or "",
            "calls": calls, "finish": reply.choices[0].finish_reason}


def check_calls(calls, where):
    for call in calls:
        try:
            ok = isinstance(json.loads(call["arguments"]), dict)
        except ValueError:
            ok = False
        check(ok, f"{where}: arguments are a JSON object", call)


def check_usage(usage, where):
    check(usage is not None, f"{where}: usage")
    if usage:
        total = usage.prompt_tokens + usage.completion_tokens
        check(usage.total_tokens == total and usage.prompt_tokens > 0, f"{where}: usage adds up")
        cached = usage.prompt_tokens_details.cached_tokens
        check(0 <= cached <= usage.prompt_tokens, f"{where}: cached tokens", cached)


def chat(client, model, **fields):
    """The same request streamed and not: both must say the same."""
    fields = {"model": model, "messages": USER, **GREEDY, **fields}
    reply = client.chat.completions.create(**fields)
    once = whole(reply)
    check_usage(reply.usage, "reply")
    streamed = merge(client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **fields))
    check_usage(streamed["usage"], "stream")
    for key in once:
        check(once[key] == streamed[key], f"stream == reply in {key}:",
              f"{streamed[key]!r} != {once[key]!r}")
    check_calls(streamed["calls"], "stream")
    return once, streamed


def try_text(client, model):
    once, streamed = chat(client, model)
    print(f"text: {streamed['chunks']} chunks, finish {once['finish']}: {once['text'][:60]!r}")


def try_tools(client, model):
    once, _ = chat(client, model, tools=[BASH], tool_choice="auto")
    print(f"tools: auto, finish {once['finish']}: {once['calls'] or once['text'][:60]!r}")
    check((once["finish"] == "tool_calls") <= bool(once["calls"]), "finish tool_calls has calls")
    named = {"type": "function", "function": {"name": "bash"}}
    for choice in ("required", named):
        once, _ = chat(client, model, tools=[BASH], tool_choice=choice)
        for call in once["calls"]:
            check(call["name"] == "bash", "only a declared tool is called", call)
        print(f"tools: {'named' if choice is named else choice}, {once['calls']}")
    once, _ = chat(client, model, tools=[BASH], tool_choice="none")
    check(not once["calls"], "tool_choice none makes no call", once["calls"])


def try_agent_turn(client, model):
    """A history as agents send it back, without content and with arguments as a string."""
    call = {"id": "call_1", "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": "ls"})}}
    history = USER + [{"role": "assistant", "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": "call_1", "content": "a.txt\nb.txt"}]
    once, _ = chat(client, model, messages=history, tools=[BASH])
    print(f"agent turn: finish {once['finish']}: {once['calls'] or once['text'][:60]!r}")


def try_fields(client, model):
    reply = client.chat.completions.create(
        model=model, messages=USER, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3)
    logprobs = reply.choices[0].logprobs
    check(logprobs is not None and len(logprobs.content) == reply.usage.completion_tokens,
          "a log-probability for each token",
          logprobs and f"{len(logprobs.content)} of {reply.usage.completion_tokens}")
    for token in logprobs.content if logprobs else []:
        check(token.logprob <= 0 and len(token.top_logprobs) == 3, "top log-probabilities")
    check(reply.choices[0].finish_reason in FINISH, "finish reason")
    reply = client.chat.completions.create(
        model=model, messages=USER, max_tokens=8, stop=["e", "a"], logit_bias={"5": -100},
        top_p=0.9, presence_penalty=0.5, frequency_penalty=0.5, n=1, user="u",
        extra_body={"top_k": 5, "min_p": 0.05, "repetition_penalty": 1.1, "ignore_eos": False,
                    "chat_template_kwargs": {"enable_thinking": False}})
    text = reply.choices[0].message.content or ""
    check("e" not in text and "a" not in text, "stop strings stay out", repr(text))


def try_completions(client, model):
    fields = {"model": model, "prompt": "The", "max_tokens": 8, "temperature": 0}
    text = client.completions.create(**fields).choices[0].text
    parts = [c.choices[0].text for c in client.completions.create(stream=True, **fields)]
    check("".join(parts) == text, "completions: stream == reply", repr((parts, text)))
    print(f"completions: {text!r}")


def try_models(client):
    models = client.models.list().data
    check(len(models) == 1, "one model is listed")
    model = models[0].id
    check(client.models.retrieve(model).id == model, "the model can be looked up")
    expect(openai.NotFoundError, "an unknown model", lambda: client.models.retrieve("no/such"))
    return model


def expect(kind, what, call, text=""):
    try:
        call()
    except kind as e:
        check(text in f"{e} {e.code}", f"{what}: names {text}", e)
    except openai.APIError as e:
        check(False, f"{what}: wanted {kind.__name__}", repr(e))
    else:
        check(False, f"{what}: wanted {kind.__name__}", "it was taken")


def try_errors(client, model):
    def ask(**fields):
        return lambda: client.chat.completions.create(**{"model": model, "messages": USER,
                                                         "max_tokens": 1, **fields})

    bad = openai.BadRequestError
    expect(bad, "no messages", ask(messages=[]), "messages")
    expect(bad, "unknown role", ask(messages=[{"role": "wizard", "content": "x"}]),
           "messages[0].role")
    expect(bad, "temperature", ask(temperature="hot"), "temperature")
    expect(bad, "n", ask(n=2), "n: 2")
    expect(bad, "response_format", ask(response_format={"type": "json_object"}), "response_format")
    expect(bad, "image", ask(messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:,"}}]}]), "image_url")
    broken = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{"}}
    expect(bad, "arguments", ask(messages=USER + [{"role": "assistant", "tool_calls": [broken]}]),
           "messages[1].tool_calls[0].function.arguments")
    long = [{"role": "user", "content": "word " * 2_000_000}]
    expect(bad, "too long a prompt", ask(messages=long), "context_length_exceeded")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    base = sys.argv[1].rstrip("/")
    base = base if base.endswith("/v1") else base + "/v1"
    key = sys.argv[2] if len(sys.argv) > 2 else "none"
    client = openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=600)
    model = try_models(client)
    try_text(client, model)
    try_tools(client, model)
    try_agent_turn(client, model)
    try_fields(client, model)
    try_completions(client, model)
    try_errors(client, model)
    print(f"openai {openai.__version__}: " + (f"{failures} failures" if failures else "all held"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
