# Every wheel is fetched once, checked against requirements.lock, and only then installed.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock .
RUN pip download --no-cache-dir --require-hashes --requirement requirements.lock --dest /wheels
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY adapters adapters
RUN pip wheel --no-index --find-links /wheels --no-deps --wheel-dir /wheels . \
    && python -m venv /app \
    && /app/bin/pip install --no-index --find-links /wheels "approval-gateway[slack,discord,email,lan,oidc,passkeys,push]"

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin gateway \
    && install --directory --mode 0700 --owner 10001 --group 10001 /archive
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["gateway"]
CMD ["up"]
