# Caddy without rights: it listens above 1024, so its program needs no file capability, and its
# state belongs to the user that it runs as.
FROM caddy:2
RUN cp /usr/bin/caddy /usr/bin/caddy-plain \
    && mkdir -m 0700 /state \
    && chown 10001:10001 /state
ENV XDG_DATA_HOME=/state XDG_CONFIG_HOME=/state
USER 10001:10001
EXPOSE 8080 8443
ENTRYPOINT ["/usr/bin/caddy-plain"]
CMD ["run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
