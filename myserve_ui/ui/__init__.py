"""The Gradio door: the browser and gradio_client."""
