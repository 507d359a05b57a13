"""Which sentence does the model find likelier? Scores given text; nothing is generated."""

import math

from openai import OpenAI

SENTENCES = ["The capital of France is Paris.", "The capital of France is Banana."]

client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
scored = client.completions.create(model="SmolLM2-135M-Instruct", prompt=SENTENCES, echo=True, max_tokens=0, logprobs=0)
for choice in scored.choices:
    known = [logprob for logprob in choice.logprobs.token_logprobs if logprob is not None]
    print(f"perplexity {math.exp(-sum(known) / len(known)):9.1f}   {choice.text}")
