"""Secrets as they stand in errors' texts: every usual form is masked, and ordinary text is left alone."""

import random
import string

import pytest

from denoise_core.errors import mask_secrets

_random = random.Random(7)
HEX = "0123456789abcdef"


def a(count, of=string.ascii_letters + string.digits):
    return "".join(_random.choice(of) for _ in range(count))


# Made up here in the forms that each service documents; a second part is the text around it.
FORMS = {
    "OpenAI": ("sk-" + a(48),),
    "OpenAI project": ("sk-proj-" + a(40) + "_" + a(20) + "-" + a(20),),
    "Anthropic-style": ("sk-ant-api03-" + a(80) + "-" + a(6) + "AA",),
    "live key": ("sk-live-" + a(11),),
    "Stripe": ("sk_live_" + a(24),),
    "Stripe restricted": ("rk_live_" + a(24),),
    "GitHub": ("ghp_" + a(36),),
    "GitHub fine": ("github_pat_" + a(22) + "_" + a(59),),
    "GitHub server": ("ghs_" + a(36),),
    "GitLab": ("glpat-" + a(20),),
    "Hugging Face": ("hf_" + a(34),),
    "AWS id": ("AKIA" + a(16, string.ascii_uppercase + string.digits),),
    "AWS secret": (a(38) + "/" + a(1), "aws_secret_access_key = {}"),
    "Google": ("AIza" + a(35),),
    "Google OAuth": ("ya29." + a(60),),
    "Google client": ("GOCSPX-" + a(28),),
    "Slack": ("xoxb-" + a(12, string.digits) + "-" + a(24),),
    "Slack app": ("xapp-1-" + a(10) + "-" + a(12, string.digits) + "-" + a(64, HEX),),
    "Slack hook": (
        "https://hooks.slack.com/services/T" + a(8) + "/B" + a(8) + "/" + a(24),
    ),
    "SendGrid": ("SG." + a(22) + "." + a(43),),
    "Twilio": ("SK" + a(32, HEX),),
    "npm": ("npm_" + a(36),),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc" + a(70),),
    "Docker": ("dckr_pat_" + a(27),),
    "JWT": ("eyJ" + a(20) + ".eyJ" + a(30) + "." + a(43),),
    "bearer": ("abc" + a(9) + "~" + a(5), "Authorization: Bearer {}"),
    "basic": ("dXNlcjpwYXNz" + a(8) + "==", "Authorization: Basic {}"),
    "URL password": ("p4ss" + a(6), "postgres://user:{}@db/x"),
    "URL query": ("q" + a(10), "https://x.example/a?api_key={}&b=1"),
    "JSON": ("p" + a(9), '{{"password": "{}"}}'),
    "PEM": (
        "MIIEvQ" + a(58) + "\n" + a(64),
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    ),
    "Azure": (a(86) + "==", "AccountKey={}"),
    "hex": (a(40, HEX),),
    "Vault": ("hvs." + a(24),),
    "DigitalOcean": ("dop_v1_" + a(64, HEX),),
    "Databricks": ("dapi" + a(32, HEX),),
    "Groq": ("gsk_" + a(52),),
    "Replicate": ("r8_" + a(37),),
    "header x-api-key": ("z" + a(12), "x-api-key: {}"),
    "Azure query sig": (
        "w" + a(12) + "%2B" + a(20) + "%3D",
        "https://b.example/c?sv=2024&sig={}",
    ),
    "Linear": ("lin_api_" + a(40),),
    "Notion": ("ntn_" + a(43),),
    "Shopify": ("shpat_" + a(32, HEX),),
    "Telegram": (a(9, string.digits) + ":AA" + a(33),),
    "AWS id of the manual": ("AKIAIOSFODNN7EXAMPLE", "key {} used"),
    "words of a provider": (
        "sk-proj-abc123DEF456",
        "Incorrect API key provided: {}. Find it",
    ),
    "a password of words": ("correct-horse", "password: {}"),
    "Square": ("sq0atp-" + a(22),),
    "Discord": ("M" + a(23) + "." + a(6) + "." + a(27),),
    "Grafana": ("glsa_" + a(32) + "_" + a(8, HEX),),
    "PlanetScale": ("pscale_tkn_" + a(43),),
    "Doppler": ("dp.pt." + a(43),),
    "Tavily": ("tvly-" + a(32),),
    "Jina": ("jina_" + a(60),),
    "Figma": ("figd_" + a(40),),
    "New Relic": ("NRAK-" + a(27, string.ascii_uppercase + string.digits),),
    "UUID": ("6e87316a-58a2-b4d9-8ebd-9dd1d460fd71", "key {} refused"),
    "letters alone": (a(40, string.ascii_letters), "key {} used"),
    "base64 in parts": ("/".join(a(9) for _ in range(4)) + "==", "value {}"),
    "cookie": ("abc" + a(12), "Cookie: session={}"),
    "set cookie": (a(13), "Set-Cookie: sid={}; Path=/"),
    "header x-auth-token": (a(10), "X-Auth-Token: {}"),
    "scheme of its own": (a(12), "Authorization: Token {}"),
    "digest": (a(14), 'Authorization: Digest username="u", response="{}"'),
    "pwd": ("hunter" + a(4), "pwd={}"),
    "pass": ("hunter" + a(4), "DB_PASS={}"),
    "passphrase": ("tower-" + a(4), "passphrase={}"),
    "private key": (a(10), "private_key: {}"),
    "option": ("hunter" + a(4), "run --password {} failed"),
    "user and password": ("hunter" + a(4), "curl -u admin:{} https://x.example"),
    "escaped JSON": ("p" + a(9), '{{\\"password\\": \\"{}\\"}}'),
    "sentence": ("hunter5" + a(4), "the password is {}"),
    "quoted": ("hunter5" + a(4), "the password '{}' is wrong"),
    "with a blank": ("two words " + a(6), 'password="{}"'),
    "query auth": (a(8), "https://x.example/?auth={}&a=b"),
    "Mailgun": ("key-" + a(32, HEX),),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_secret_is_masked(name):
    secret, *around = FORMS[name]
    told = mask_secrets(
        (around[0] if around else "refused: {} was given").format(secret)
    )
    assert "***" in told
    places = range(max(1, len(secret) - 12)) if len(secret) > 16 else [0]
    start = {"Slack app": 20, "Slack hook": 50}.get(
        name, 0
    )  # numbers of a workspace before it are no secret
    assert not [
        secret[i : i + 14] for i in places if i >= start and secret[i : i + 14] in told
    ]


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 503 from http://127.0.0.1:8000/v1/rerank, tried 4 times in 12.5 s",
        "sentence-transformers/all-MiniLM-L6-v2 is not a folder in /home/me/models-2024-11-05",
        "expected shape (128, 384), got (12, 768) at layer 14 of Qwen3-0.6B-Instruct-2507",
        "InputError: passages 1 and 2 share the id 'passage-1'; hf-internal-testing/tiny, task-force, 429",
        "the password is wrong; the token is expired; unexpected token 'else' at 4",
        "com.example.config.ConfigurationPropertiesBindingPostProcessor is missing",
        "/home/me/rag/indexes/2024-11-05/part-0001/embeddings.safetensors is cut off",
        "passages[17]: id 'chapter-12-section-3-paragraph-44' came before",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert mask_secrets(text) == text
