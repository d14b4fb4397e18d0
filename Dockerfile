# holdfast serve, on CPUs. Callers' keys are mounted: see docs/service.md.
FROM python:3.13-slim
RUN useradd --create-home --uid 1000 holdfast
WORKDIR /opt/holdfast
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock \
    && pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --no-deps .
USER holdfast
WORKDIR /home/holdfast
EXPOSE 8023
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8023/v1/health')"
ENTRYPOINT ["holdfast", "serve", "--no-open", "--host", "0.0.0.0", "--keys", "/run/keys.toml"]
