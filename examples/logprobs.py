"""How sure the model was of each token, and what it might have said instead."""

import math

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
answer = client.chat.completions.create(
    model="SmolLM2-135M-Instruct",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
    max_tokens=12,
    logprobs=True,
    top_logprobs=3,
)
for entry in answer.choices[0].logprobs.content:
    others = ", ".join(f"{other.token!r} {math.exp(other.logprob):.1%}" for other in entry.top_logprobs)
    print(f"{entry.token!r:>12} {math.exp(entry.logprob):6.1%}   of {others}")
