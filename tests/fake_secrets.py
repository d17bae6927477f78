"""Fake secrets of every kind, made at run time: no file holds one. One kind is a text around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

_HEX, _DIGITS, _UPPER = "0123456789abcdef", "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class FakeSecret:
    """A secret, the text in which it stands, and the parts of it that may stand nowhere."""

    kind: str
    text: str
    secret: str

    def is_in(self, said: str) -> bool:
        """Whether a good part of the secret stands in what a place shows or keeps."""
        part = min(len(self.secret), 10)
        return self.secret[-part:] in said


def _letters(seed: str, length: int, alphabet: str = _ALNUM) -> str:
    made = ""
    while len(made) < length:
        digest = hashlib.sha256(f"{seed}{len(made)}".encode()).digest()
        made += "".join(alphabet[byte % len(alphabet)] for byte in digest)
    return made[:length]


# A prefix, how many characters follow, and of which.
_ISSUED: dict[str, tuple[str, int, str]] = {
    "our agents": ("agw_0123abcd_", 43, _ALNUM),
    "our webhooks": ("whsec_", 32, _ALNUM),
    "GitHub": ("ghp_", 36, _ALNUM),
    "GitHub app": ("ghs_", 36, _ALNUM),
    "GitHub fine-grained": ("github_pat_", 60, _ALNUM),
    "GitLab": ("glpat-", 20, _ALNUM),
    "GitLab runner": ("glrt-", 20, _ALNUM),
    "Slack bot": ("xoxb-", 40, _DIGITS),
    "Slack app": ("xapp-", 40, _DIGITS),
    "Stripe": ("sk_live_", 24, _ALNUM),
    "Stripe restricted": ("rk_live_", 24, _ALNUM),
    "AWS": ("AKIA", 16, _UPPER),
    "Google API": ("AIza", 35, _ALNUM),
    "Google OAuth": ("ya29.", 60, _ALNUM),
    "Google client": ("GOCSPX-", 28, _ALNUM),
    "OpenAI": ("sk-proj-", 48, _ALNUM),
    "Anthropic": ("sk-ant-api03-", 80, _ALNUM),
    "Twilio": ("SK", 32, _HEX),
    "SendGrid": ("SG." + "x" * 22 + ".", 43, _ALNUM),
    "Databricks": ("dapi", 32, _HEX),
    "Shopify": ("shpat_", 32, _HEX),
    "Vault": ("hvs.", 24, _ALNUM),
    "Hugging Face": ("hf_", 34, _ALNUM),
    "npm": ("npm_", 36, _ALNUM),
    "PyPI": ("pypi-AgEI0", 60, _ALNUM),
    "Docker": ("dckr_pat_", 27, _ALNUM),
    "Tailscale": ("tskey-auth-k0-", 32, _ALNUM),
    "DigitalOcean": ("dop_v1_", 64, _HEX),
    "Grafana": ("glsa_", 41, _ALNUM),
    "Linear": ("lin_api_", 40, _ALNUM),
    "age": ("AGE-SECRET-KEY-1", 58, _UPPER),
    "Mailgun": ("key-", 32, _HEX),
    "Notion": ("ntn_", 46, _ALNUM),
    "Groq": ("gsk_", 52, _ALNUM),
    "Figma": ("figd_", 40, _ALNUM),
    "Atlassian": ("ATATT3x", 60, _ALNUM),
    "Atlassian app": ("ATCTT3x", 60, _ALNUM),
    "Cloudflare": ("cfut_", 48, _ALNUM),
    "Vercel": ("vck_", 56, _ALNUM),
    "Heroku": ("HRKU-AA", 58, _ALNUM),
    "Airtable": ("pat" + "x" * 14 + ".", 64, _HEX),
    "HubSpot": ("pat-na1-", 36, _HEX),
    "Resend": ("re_" + "x" * 8 + "_", 24, _ALNUM),
    "Pinecone": ("pcsk_" + "x" * 6 + "_", 63, _ALNUM),
    "NVIDIA": ("nvapi-", 64, _ALNUM),
    "Bedrock": ("ABSK", 128, _ALNUM),
    "CircleCI": ("CCIPAT_" + "x" * 22 + "_", 40, _HEX),
    "PostHog": ("phx_", 43, _ALNUM),
    "Render": ("rnd_", 28, _ALNUM),
    "LangSmith": ("lsv2_pt_", 32, _HEX),
    "Neon": ("napi_", 64, _ALNUM),
}
# A text around a secret of no shape of its own; in the list it may be words of an argv.
PLACED: dict[str, str] = {
    "login link": "https://h.example/inbox/login#code={}",
    "--password X": "deploy --password {} now",
    "--password=X": "deploy --password={} now",
    "--secret X": "deploy --secret {} now",
    "--secret=X": "deploy --secret={} now",
    "--api-key X": "deploy --api-key {} now",
    "--api-key=X": "deploy --api-key={} now",
    "--db-password X": "deploy --db-password {} now",
    "--token X": "deploy --token {} now",
    "--pass X": "deploy --pass {} now",
    "--client-secret X": "deploy --client-secret {} now",
    "curl -u": "curl -sS -u bot:{} https://h.example",
    "curl --user": "curl --user bot:{} https://h.example",
    "curl behind a header": "curl -H 'X: y' https://h.example/?a=b&c=d -u bot:{}",
    "curl behind quoted signs": "curl -H 'X: a; b | c' -u bot:{} https://h.example",
    "curl on two lines": "curl -sS \\\n  -u bot:{} https://h.example",
    "flag on two lines": "deploy --password \\\n  {} now",
    "httpie": "http -a bot:{} POST https://h.example",
    "curl -b": "curl -b sid={} https://h.example",
    "mysql": "mysql -u root -p{} shop",
    "mysqldump": "mysqldump -p{} shop",
    "sshpass": "sshpass -p {} ssh h.example",
    "mysql in a container": "docker exec -i db mysql -uroot -p{} shop",
    "sshpass behind a flag": "sshpass -v -p {} ssh h.example",
    "sshpass joined": "sshpass -p{} ssh h.example",
    "redis-cli": "redis-cli -h db -a {} ping",
    "docker login": "docker login -u bot -p {} r.example",
    "registries": '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}',
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
    "Cookie": "curl -H 'Cookie: sid={}' https://h.example",
    "second cookie": "curl -H 'Cookie: theme=dark; sid={}' https://h.example",
    "Authorization bare": "curl -H 'Authorization: {}' https://h.example",
    "Authorization Bearer": "curl -H 'Authorization: Bearer {}' https://h.example",
    "Authorization Basic": "curl -H 'Authorization: Basic {}' https://h.example",
    "Authorization other": "curl -H 'Authorization: ApiKey {}' https://h.example",
    "Vault header": "curl -H 'X-Vault-Token: {}' https://h.example",
    "X-Api-Key": "curl -H 'X-Api-Key: {}' https://h.example",
    "X-Auth-Token": "curl -H 'X-Auth-Token: {}' https://h.example",
    "Private-Token": "curl -H 'Private-Token: {}' https://h.example",
    "pwd=": "server=db;uid=sa;pwd={};",
    "AccountKey=": "AccountName=x;AccountKey={};",
    "password=": "password={} run",
    "PASSWORD with signs": "DB_PASSWORD=h!nt@{} run",
    "client_secret": 'client_secret="{}"',
    "AWS secret key": "AWS_SECRET_ACCESS_KEY={} run",
    "TOKEN=": "GITHUB_TOKEN={} run",
    "in an address": "https://bot:{}@h.example/x",
    "in a database's address": "postgres://app:{}@db.example:5432/app",
    "key block": "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
}
WORDS = ("--password X", "--secret X", "--api-key X", "curl -u", "mysql", "sshpass")


def fake_secrets(seed: str, form: Callable[[str], str] = str) -> list[FakeSecret]:
    """Return one of each kind, whose secrets are this seed's own; `form` dresses each text."""
    made = []
    for kind, (prefix, length, alphabet) in _ISSUED.items():
        secret = prefix + _letters(f"{seed} {kind}", length, alphabet)
        made.append(FakeSecret(kind, form(f"use {secret} now"), secret))
    for kind, text in PLACED.items():
        secret = _letters(f"{seed} {kind}", 28)
        made.append(FakeSecret(kind, form(text.format(secret)), secret))
    return made
