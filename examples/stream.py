"""Three answers to one question, streamed side by side; the same seed gives the same three again."""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
stream = client.chat.completions.create(
    model="SmolLM2-135M-Instruct",
    messages=[{"role": "user", "content": "Name a fruit."}],
    n=3,
    seed=7,
    temperature=1,
    max_tokens=30,
    stream=True,
    stream_options={"include_usage": True},
)
answers = ["", "", ""]
for chunk in stream:
    for choice in chunk.choices:
        answers[choice.index] += choice.delta.content or ""
    if chunk.usage:
        print(f"{chunk.usage.completion_tokens} tokens in all")
for number, answer in enumerate(answers, start=1):
    print(f"{number}. {answer!r}")
