"""An answer that is JSON of a given shape, whatever the model: every token is held to the schema."""

import json

from openai import OpenAI

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "country": {"type": "string", "maxLength": 20},
        "is_capital": {"type": "boolean"},
        "continent": {"enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
    },
    "required": ["city", "country", "is_capital", "continent"],
    "additionalProperties": False,
}

client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
answer = client.chat.completions.create(
    model="SmolLM2-135M-Instruct",
    messages=[{"role": "user", "content": "Describe Paris as JSON."}],
    response_format={"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}},
    temperature=0,
    max_tokens=100,
)
for name, value in json.loads(answer.choices[0].message.content).items():
    print(f"{name:>10}: {value}")
