"""Finds passwords, keys and tokens in a study or a preset, before anything is written. Pure.

Input: plain data. Results, requests, archives, tracking stores and Snakemake's metadata record every command whole, so a secret must not
be in one. A command inherits the user's environment, where secrets belong. `$NAME` in a shell's words is a reference, and no secret.

Names tell most of them: `HF_TOKEN: x`, `--api-key=x`, `[--api-key, x]`, `wandb.api_key=x`, `Authorization: x`. Addresses tell some
(`https://me:x@host`), and so do the forms of well-known tokens. A secret under another name (`-p x`) is not noticed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from envknee.study.errors import UserError
from envknee.study.plain import MOST_NODES

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The words of `WANDB_API_KEY`, `wandb.api-key` and `wandbApiKey`."""

SECRET_WORDS = (
    "password", "passwd", "passphrase", "passcode", "secret", "secrets", "credential", "credentials", "authorization", "apikey",
    "secretkey", "accesskey", "privatekey", "authkey",
)  # fmt: skip
"""Ends of a name's last word: the value is a secret, whatever it is."""

OF_DATA = frozenset(
    {
        "obs", "observation", "observations", "sort", "dict", "group", "state", "action", "reward", "primary", "foreign", "public",
        "column", "field", "log", "metric", "image", "camera", "policy", "critic", "info", "hot", "rng", "prng", "cache", "partition",
        "eos", "bos", "pad", "unk", "mask", "sep", "cls", "max", "min", "num", "stop", "begin", "end", "start", "vocab",
    }
)  # fmt: skip
"""Words before `key` or `token` that make it the name of data, as in `--obs-key policy`."""

AFTER_IT = frozenset({"id", "value", "base64", "b", "string"})
"""Words after the one that tells: `AWS_ACCESS_KEY_ID`."""

PLAIN_VALUE = re.compile(r"[-+.\d]*|true|false|none|null|auto|yes|no|lambda\b.*", re.IGNORECASE | re.DOTALL)
PATH = re.compile(r"[~./][\w.~/ -]*|[\w./-]+\.(pem|key|crt|cert|json|ya?ml|txt)")
"""Values of a `key` or `token` that are none: numbers, switches and the paths of files."""

REFERENCE = re.compile(r"\$\w+|\$\{.*\}|\$\(.*\)?|\{\w+\}|\*+|(os\.)?(environ|getenv)\b.*|getpass\b.*", re.DOTALL)
"""Values that stand for another: a shell's or Hydra's variable, the output of a program, a placeholder."""

VALUE = (
    r"""(?P<value>"[^"]{0,300}"|'[^']{0,300}'|\$\{{1,2}[^}]{0,300}\}{1,2}|(?:bearer|basic|token)\s+[^\s,;&"'}\]]{1,300}"""
    r"""|[^\s,;&"'}\]]{1,300})"""
)
"""A value, up to where it can be told: of a longer one the beginning. The bound keeps the time in proportion to the text."""

ASSIGNED = re.compile(rf"""(?<![\w.-])-*(?P<name>[A-Za-z][\w.-]*)["']?\s*(?:=|:(?!//))\s*(?={VALUE})""", re.IGNORECASE)
"""`name=value` and `"name": value`, also within another value, as in `--env=HF_TOKEN=x`."""

FLAG_IN_TEXT = re.compile(rf"(?<!\S)--?(?P<name>[A-Za-z][\w.-]*)\s+(?={VALUE})")
FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
WHOLE_WORD = re.compile(r"-{0,2}\+{0,2}(?P<name>[A-Za-z][\w.-]*)=(?P<value>.*)", re.DOTALL)

ADDRESS = re.compile(r"(?<![\w+.-])(?P<scheme>\w[\w+.-]*)://(?P<user>[^\s/:@]*)(?P<password>:[^\s/@]+)?@")
KNOWN_FORMS = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[\w-]{10,}|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""Tokens of Hugging Face, GitHub, GitLab, OpenAI, AWS and Slack, JSON web tokens, and private keys."""

NOT_RECORDED_AS_TEXT = frozenset({"tracking", "rows", "oom", "invalid"})
"""Sections without commands: a store's address has a file of mode 0600 (`study.claim`), names of logged quantities are no secrets."""


class Found(NamedTuple):
    """A secret, without its value."""

    key: str
    """Where it stands, such as `arms.mine.command.env.HF_TOKEN`."""
    name: str | None
    """Its own name, such as `HF_TOKEN` or `api-key`; None: its form or its address shows it."""


def is_secret_name(name: str) -> bool:
    """Tell whether the value of a variable, flag or field of this name is a secret."""
    words = _telling_words(name)
    if not words:
        return False
    last, before = words[-1], words[-2:-1]
    if last.endswith(SECRET_WORDS):
        return True
    if last in ("pwd", "pass"):  # but not PWD, and not --render-pass
        return bool(before) and name.isupper()
    return (last == "key" or last.endswith("token")) and not OF_DATA.intersection(before)


def _telling_words(name: str) -> list[str]:
    words = [word.lower() for word in WORDS.findall(name)]
    while len(words) > 1 and (words[-1] in AFTER_IT or words[-1].isdigit()):
        words.pop()
    return words


def is_secret(name: str, value: str) -> bool:
    """Tell whether a name's value is a secret, and not a reference, a switch or a path."""
    bare = value.strip().strip("\"'").strip()
    if not bare or REFERENCE.fullmatch(bare) or not is_secret_name(name):
        return False
    if _telling_words(name)[-1].endswith(SECRET_WORDS):
        return not re.fullmatch(r"true|false|none|null", bare, re.IGNORECASE)
    return not PLAIN_VALUE.fullmatch(bare) and not PATH.fullmatch(bare)


def find(data: Any, key: str = "") -> Iterator[Found]:
    """Yield every secret in plain data: nested mappings, lists and texts. `key` is where `data` stands.

    Raises:
        UserError: when it has more than `MOST_NODES` keys and values, as data that contains itself has.
    """
    waiting: list[tuple[str, Any]] = [(key, data)]
    looked_at = 0
    while waiting:
        where, value = waiting.pop()
        looked_at += 1
        if looked_at > MOST_NODES:
            raise UserError(f"{where or 'it'} has more than {MOST_NODES:,} keys and values, the most that are read")
        if isinstance(value, Mapping):
            for name, item in value.items():
                inside = f"{where}.{name}" if where else str(name)
                if isinstance(item, str) and is_secret(str(name), item):
                    yield Found(inside, str(name))
                elif name not in NOT_RECORDED_AS_TEXT:
                    waiting.append((inside, item))
        elif isinstance(value, list | tuple):
            yield from _after_flags(where, value)
            waiting += [(where, item) for item in value]
        elif isinstance(value, str):
            yield from _in_text(where, value)


def _after_flags(key: str, words: Sequence[Any]) -> Iterator[Found]:
    """Yield the secrets that follow their flag as a word of their own: `[--api-key, x]`."""
    texts = [word if isinstance(word, str) else "" for word in words]
    for flag, value in zip(texts, texts[1:], strict=False):
        match = FLAG.fullmatch(flag)
        if match and not value.startswith("-") and is_secret(match["name"], value):
            yield Found(key, match["name"])


def _in_text(key: str, text: str) -> Iterator[Found]:
    whole = WHOLE_WORD.fullmatch(text)
    named = [whole] if whole else []
    named += [*ASSIGNED.finditer(text), *FLAG_IN_TEXT.finditer(text)]
    for match in named:
        if is_secret(match["name"], match["value"]):
            yield Found(key, match["name"])
            return
    for match in ADDRESS.finditer(text):
        user, password = match["user"], (match["password"] or "")[1:]
        has_password = password and not REFERENCE.fullmatch(password)
        is_token = not password and user and match["scheme"].startswith("http") and not REFERENCE.fullmatch(user)
        if has_password or is_token:
            yield Found(key, None)
            return
    if KNOWN_FORMS.search(text):
        yield Found(key, None)


def refuse(data: Any, source: str) -> None:
    """Make sure that plain data holds no secret.

    Raises:
        UserError: names where it stands, and how to pass it. It never shows the secret.
    """
    found = next(find(data), None)
    if found is not None:
        raise UserError(f"{source}: {problem_of(found)}")


def refuse_copy(data: Any, source: str) -> None:
    """Make sure that results which leave this folder hold no secret: those of an earlier version may.

    Raises:
        UserError: names where it stands. It never shows the secret.
    """
    found = next(find(data), None)
    if found is not None:
        raise UserError(
            f"{source}: {found.key} holds a secret ({found.name or 'an address with a password, or a token'}), and a copy would hold it"
            " for others to read. Nothing was written. Measure the study again under another name, with the secret in your environment"
        )


def problem_of(found: Found) -> str:
    """Return what is wrong with a secret in a study, and how to pass it instead."""
    variable = re.sub(r"\W", "_", found.name or "SECRET").upper()
    what = f"the value of {found.name}" if found.name else "an address with a password, or a token,"
    return (
        f"{found.key}: {what} is a secret, and results, archives and tracking stores would keep it. Nothing was written."
        f" Take it out, and `export {variable}=...` before you start: a command inherits your environment. If the program wants it as"
        f' an argument, let a shell fill it in: argv: [sh, -c, \'exec PROGRAM "$@" --NAME="${variable}"\', sh, ARGUMENTS ...]'
    )
