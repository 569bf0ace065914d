"""Secrets as they stand in errors' texts: every usual form is masked, and ordinary text is left alone."""

import random
import re
import string

import pytest

from denoise_core.errors import mask_secrets

# Made up here in the forms that each service documents, with the text around the secret; the secret is in double
# brackets, and <48> is 48 random characters: x of a hexadecimal number, d digits, A capitals and digits, a letters
FORMS = r"""
    OpenAI: refused: [[sk-<48>]] was given
    OpenAI project: refused: [[sk-proj-<40>_<20>-<20>]] was given
    Anthropic-style: refused: [[sk-ant-api03-<80>-<6>AA]] was given
    live key: refused: [[sk-live-<11>]] was given
    Stripe: refused: [[sk_live_<24>]] was given
    Stripe restricted: refused: [[rk_live_<24>]] was given
    GitHub: refused: [[ghp_<36>]] was given
    GitHub fine: refused: [[github_pat_<22>_<59>]] was given
    GitHub server: refused: [[ghs_<36>]] was given
    GitLab: refused: [[glpat-<20>]] was given
    Hugging Face: refused: [[hf_<34>]] was given
    AWS id: refused: [[AKIA<16A>]] was given
    AWS secret: aws_secret_access_key = [[<38>/<1>]]
    Google: refused: [[AIza<35>]] was given
    Google OAuth: refused: [[ya29.<60>]] was given
    Google client: refused: [[GOCSPX-<28>]] was given
    Slack: refused: [[xoxb-<12d>-<24>]] was given
    Slack app: refused: xapp-1-<10>-<2d>[[<10d>-<64x>]] was given
    Slack hook: https://hooks.slack.com/services/T<8>/B<6>[[<2>/<24>]]
    SendGrid: refused: [[SG.<22>.<43>]] was given
    Twilio: refused: [[SK<32x>]] was given
    npm: refused: [[npm_<36>]] was given
    PyPI: refused: [[pypi-AgEIcHlwaS5vcmc<70>]] was given
    Docker: refused: [[dckr_pat_<27>]] was given
    JWT: refused: [[eyJ<20>.eyJ<30>.<43>]] was given
    bearer: Authorization: Bearer [[abc<9>~<5>]]
    basic: Authorization: Basic [[dXNlcjpwYXNz<8>==]]
    URL password: postgres://user:[[p4ss<6>]]@db/x
    URL query: https://x.example/a?api_key=[[q<10>]]&b=1
    JSON: {"password": "[[p<9>]]"}
    PEM: -----BEGIN PRIVATE KEY-----\n[[MIIEvQ<58>\n<64>]]\n-----END PRIVATE KEY-----
    Azure: AccountKey=[[<86>==]]
    hex: refused: [[<40x>]] was given
    Vault: refused: [[hvs.<24>]] was given
    DigitalOcean: refused: [[dop_v1_<64x>]] was given
    Databricks: refused: [[dapi<32x>]] was given
    Groq: refused: [[gsk_<52>]] was given
    Replicate: refused: [[r8_<37>]] was given
    header x-api-key: x-api-key: [[z<12>]]
    Azure query sig: https://b.example/c?sv=2024&sig=[[w<12>%2B<20>%3D]]
    Linear: refused: [[lin_api_<40>]] was given
    Notion: refused: [[ntn_<43>]] was given
    Shopify: refused: [[shpat_<32x>]] was given
    Telegram: refused: [[<9d>:AA<33>]] was given
    AWS id of the manual: key [[AKIAIOSFODNN7EXAMPLE]] used
    words of a provider: Incorrect API key provided: [[sk-proj-abc123DEF456]]. Find it
    a password of words: password: [[correct-horse]]
    Square: refused: [[sq0atp-<22>]] was given
    Discord: refused: [[M<23>.<6>.<27>]] was given
    Grafana: refused: [[glsa_<32>_<8x>]] was given
    PlanetScale: refused: [[pscale_tkn_<43>]] was given
    Doppler: refused: [[dp.pt.<43>]] was given
    Tavily: refused: [[tvly-<32>]] was given
    Jina: refused: [[jina_<60>]] was given
    Figma: refused: [[figd_<40>]] was given
    New Relic: refused: [[NRAK-<27A>]] was given
    UUID: key [[6e87316a-58a2-b4d9-8ebd-9dd1d460fd71]] refused
    letters alone: key [[<40a>]] used
    base64 in parts: value [[<9>/<9>/<9>/<9>==]]
    cookie: Cookie: session=[[abc<12>]]
    set cookie: Set-Cookie: sid=[[<13>]]; Path=/
    header x-auth-token: X-Auth-Token: [[<10>]]
    scheme of its own: Authorization: Token [[<12>]]
    digest: Authorization: Digest username="u", response="[[<14>]]"
    pwd: pwd=[[hunter<4>]]
    pass: DB_PASS=[[hunter<4>]]
    passphrase: passphrase=[[tower-<4>]]
    private key: private_key: [[<10>]]
    option: run --password [[hunter<4>]] failed
    user and password: curl -u admin:[[hunter<4>]] https://x.example
    escaped JSON: {\"password\": \"[[p<9>]]\"}
    sentence: the password is [[hunter5<4>]]
    quoted: the password '[[hunter5<4>]]' is wrong
    with a blank: password="[[two words <6>]]"
    query auth: https://x.example/?auth=[[<8>]]&a=b
    Mailgun: refused: [[key-<32x>]] was given
"""
ALPHABETS = {
    "": string.ascii_letters + string.digits,
    "a": string.ascii_letters,
    "A": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "x": "0123456789abcdef",
}


@pytest.mark.parametrize("form", FORMS.strip().splitlines())
def test_a_secret_is_masked(form):
    name, _, template = form.strip().partition(": ")
    drawn = random.Random(name)

    def fill(match):
        return "".join(drawn.choices(ALPHABETS[match[2]], k=int(match[1])))

    text = re.sub(r"<(\d+)([aAdx]?)>", fill, template.replace(r"\n", "\n"))
    before, secret, after = re.split(r"\[\[|\]\]", text)
    told = mask_secrets(f"{before}{secret}{after}")
    assert "***" in told
    last_start = len(secret) - 13 if len(secret) > 16 else 0
    for start in range(last_start + 1):
        assert secret[start : start + 14] not in told


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
