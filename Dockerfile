# specload: the service, the command line, the rehearsal engine, `specload watch` as an exporter. docs/deploy.md says how
# it is run.
#   docker build -t specload:0.1.0 .
#   docker run --rm -v "$PWD/scenarios:/scenarios:ro" specload:0.1.0 check --offline /scenarios/quickstart.yaml

FROM python:3.11.15-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY loadgen loadgen
COPY server_adapters server_adapters
# For the little C of our own (setup.py); the image that is shipped has no compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
# The versions that the tests ran with. The environment has no pip of its own; every dependency is a wheel.
RUN python -m venv --without-pip /opt/specload \
    && pip --python /opt/specload install --no-cache-dir --disable-pip-version-check --only-binary :all: \
        --no-binary specload -c constraints.txt . \
    && /opt/specload/bin/python -P -c "import loadgen.drive._sse, loadgen.drive.kernel._reader, server_adapters._plain" \
    && find /opt/specload -type d \( -name tests -o -path '*/pyarrow/include' \) -prune -exec rm -r {} +

FROM python:3.11.15-slim-bookworm
LABEL org.opencontainers.image.title="specload" org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 specload \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin specload \
    && install -d -o specload -g specload /data /data/runs /data/service
COPY --from=build /opt/specload /opt/specload
# SPECLOAD_HEALTH_URL: what answers with 200 while the container is healthy; this one is the service's.
ENV PATH=/opt/specload/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPECLOAD_HEALTH_URL=http://127.0.0.1:8080/health
WORKDIR /data
# A number, so that Kubernetes' runAsNonRoot can see that it is not 0.
USER 10001:10001
EXPOSE 8001 8080 9464 9465
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(os.environ['SPECLOAD_HEALTH_URL'], timeout=3)"]
ENTRYPOINT ["specload"]
CMD ["serve"]
