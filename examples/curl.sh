#!/usr/bin/env bash
# The routes with nothing but curl: readiness, models, a whole answer, a stream, token ids, figures.
set -euo pipefail
url=http://127.0.0.1:7860

post() { # path, body
    curl --silent --show-error --fail --no-buffer "$url$1" --header 'content-type: application/json' --data "$2"
    echo
}

curl --silent --fail "$url/health"; echo
curl --silent --fail "$url/v1/models"; echo
question='{"role": "user", "content": "What is the capital of France?"}'
post /v1/chat/completions '{"model": "SmolLM2-135M-Instruct", "messages": ['"$question"'], "temperature": 0, "max_tokens": 20}'
post /v1/chat/completions '{"model": "SmolLM2-135M-Instruct", "messages": ['"$question"'], "temperature": 0, "max_tokens": 20, "stream": true}'
post /generate '{"prompt": "One, two, three,", "max_new_tokens": 8}'
post /tokenize '{"content": "One, two, three,"}'
curl --silent --fail "$url/metrics" | grep '^vllm:request_success_total'
