"""The model asks for a function, this script calls it, the model answers with the result. Needs a model with tools."""

import json

from openai import OpenAI

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}


def get_weather(city: str, unit: str) -> str:
    return f"Sunny in {city}, {21 if unit == 'C' else 70} {unit}"


def ask_with_tools(client: OpenAI, model: str) -> None:
    messages: list = [{"role": "user", "content": "How is the weather in Paris?"}]
    settings = {"model": model, "tools": [WEATHER], "temperature": 0}
    # "required" holds the answer to calls that fit the schema; with "auto" the model may also just talk
    asked = client.chat.completions.create(
        **settings, messages=messages, tool_choice="required", parallel_tool_calls=False, max_tokens=200
    )
    messages.append(asked.choices[0].message)
    for call in asked.choices[0].message.tool_calls:
        result = get_weather(**json.loads(call.function.arguments))
        print(f"{call.function.name}({call.function.arguments}) -> {result}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print(client.chat.completions.create(**settings, messages=messages).choices[0].message.content)


client = OpenAI(base_url="http://127.0.0.1:7860/v1", api_key="not-needed")
model = client.models.list().data[0]
if model.takes_tools:
    ask_with_tools(client, model.id)
else:
    print(
        f"{model.id} was not trained to call functions. Start the app with a model that was, such as "
        "`make run MODEL=Qwen/Qwen2.5-0.5B-Instruct`, and run this again."
    )
