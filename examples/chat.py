"""One question, one answer, and what it cost."""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
answer = client.chat.completions.create(
    model="SmolLM2-135M-Instruct",
    messages=[
        {"role": "system", "content": "You answer in one sentence."},
        {"role": "user", "content": "What is the capital of France?"},
    ],
    temperature=0,
    max_tokens=60,
)
print(answer.choices[0].message.content)
print(f"{answer.usage.prompt_tokens} tokens in, {answer.usage.completion_tokens} out")
