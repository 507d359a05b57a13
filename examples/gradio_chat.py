"""The same chat through Gradio's own client; the answer so far comes longer each time."""

from gradio_client import Client

client = Client("http://127.0.0.1:7860", verbose=False)
*_, answer = client.submit(message="What is the capital of France?", temperature=0, max_tokens=40, api_name="/chat")
print(answer)
client.close()
