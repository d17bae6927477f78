"""Find secrets by their form or name, and mask them in every text made from a request. Start
reading at `render_safe` and `mask`.

The digest of a request covers the real bytes; only texts for people are masked. If a value is not
quoted, its mask ends at a space, a quote or an operator. If it is quoted, its mask ends at the
closing quote. `cards.masks` decides whether a masked value could change what runs.
"""

from __future__ import annotations

import heapq
import hmac
import json
import re
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain
from secrets import token_bytes
from typing import Any

from gateway.domain.safe_text import MASK, Span, Visible, make_visible
from gateway.domain.secret_names import STEMS, find_named, fold, name_items, value_behind

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,15}://"
# A path after a name is no secret. Nor is the beginning of another shape, which must stay unread,
# so that its own pattern can find the secret in it.
_OTHER = rf"[/.~]|-----BEGIN |(?i:bearer|basic|token)[ \t]|{_SCHEME}"
_VALUE = r"[^\s\"'`$;|&<>()\\]"  # of a flag: no blank, quote or operator
_QUOTE = r"(?:\\{0,7}[\"'])?"  # also in JSON, and in JSON within JSON
_IS = rf"{_QUOTE}[ \t]{{0,3}}(?:=>|:=|[:=])[ \t]{{0,3}}{_QUOTE}"
# Between a flag and its value.
_NEXT = (  # the next word of a command, even on the next line, or of a list
    r"(?:[ \t]{1,3}(?:(?:\\\r?\n|\\{2,7}n)[ \t]{0,40})?"
    r"|\\{0,7}[\"'],\s{0,80}(?=\\{0,7}[\"']))"
)
_THEN = rf"(?:=|{_NEXT}){_QUOTE}"
# Values after a secret's name that are no secrets: everyday words, types, and values that code or a
# program looks up elsewhere. Passwords look different.
_PLAIN = (
    r"(?i:string|secretstr|optional|undefined|required|enabled|disabled|inherit|boolean|integer"
    r"|number|object|bearer)(?![A-Za-z0-9_\-./+=~!@%^*])"
    r"|[A-Za-z_.]{1,60}(?:[(\[]|::|<(?!/))"
    r"|(?:self|this|process\.env|os\.environ|req|request|settings|config|vars?|env|secrets|params)"
    r"(?:\.[A-Za-z_]{1,40}){1,4}(?![A-Za-z0-9_\-./+=~!@%^*])"
)
# Words after "token" in a sentence or a command: one word without digits, or a flag.
_PROSE = r"(?:[A-Za-z][a-z]{11,19}|--?[a-z][a-z-]{10,30})(?![A-Za-z0-9_\-.+=~/])"
# Prefixes that letters and at least one digit follow.
_BEGINNINGS = """
AIK_CI_ AIK_SECRET_ AIK_CLIENT_ AstraCS: CCDB1_ CCIPAT_ CCIPRJ_ CLOJARS_ FLWSECK FLWPUBK
GR1348941 HRKU- NRAK- NRII- NRJS- PMAK- PMAT- SWMTKN-1- bkaa_ bkaj_ bkar_
bkct_ bkpat_ bkps_ bkpt_ bkua_ cfat_ cfut_ lsv2_pt_ lsv2_sk_ mdb_sa_sk_ mercury_production_
mergify_application_key_ nvapi- p8e- pcsk_ pdl_live_apikey_ persona_production_
pina_ polar_at_ polar_oat_ polar_pat_ packagist_ack_ packagist_acs_ packagist_ort_
packagist_out_ pk-lf- ramp_sec_ rzp_live_ rzp_test_ s-s4t2af- s-s4t2ud- sbp_ shippo_live_
shippo_test_ sk_car_ sm_aat_ sm_pat_ sm_sat_ tgp_v1_ tk-us- vtwn_
wandb_v1_ xkeysib- xnd_development_ xnd_production_
"""
# Prefixes that ordinary names have too, but no name has so long a word with a digit in it.
_SHORT_BEGINNINGS = """
db- ion_ m0- cog_ csa_ csk- ico- llx- rnd_ rpa_ pnu_ nyk_ ddo_ ddp_ rdme_ ucat_
rootly_ unkey_ zpka_ apify_api_ samsara_api_ waka_ napi_ EZAK EZTK AKCp
"""
# The documented forms of each issuer's tokens, not preceded by a letter or digit.
_ISSUED = (
    r"agw_[0-9a-f]{8}_[A-Za-z0-9_-]{20,}|whsec_[A-Za-z0-9+/=_-]{16,}",  # our own
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{16,}",
    r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%/+_-]{10,}={0,2}|xapp-[A-Za-z0-9-]{10,}",
    r"sk-(?!(?:[a-z]{1,20}-){1,9}[a-z]{1,20}(?![\w-]))[A-Za-z0-9_-]{20,}",
    r"sk_(?:live|test|prod)_[A-Za-z0-9+/]{10,}={0,2}|rk_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    r"pk_(?:live|test)_[A-Za-z0-9]{16,}",
    r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}",
    r"ya29\.[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{20,}|hv[sbr]\.[A-Za-z0-9_-]{16,}",
    r"hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-(?=[A-Za-z-]{0,60}[0-9_])[A-Za-z0-9_-]{16,}",
    r"SG\.[A-Za-z0-9_=-]{10,99}\.[A-Za-z0-9_.=-]{10,}|SK[0-9a-fA-F]{32}\b|key-[0-9a-f]{32}\b",
    r"dckr_[po]at_[A-Za-z0-9_-]{16,}|tskey-[a-z]{2,12}-[A-Za-z0-9_-]{10,}",
    r"do[opr]_v1_[0-9a-f]{32,}|dapi[0-9a-f]{32}(?:-\d)?|shp(?:at|ss|ca|pa|tka)_[A-Za-z0-9]{16,}",
    r"gl(?:sa|c)_[A-Za-z0-9_=+/]{20,}|lin_(?:api|oauth)_[A-Za-z0-9]{16,}",
    r"AGE-SECRET-KEY-[A-Z0-9]{20,}|sq0[a-z]{3}-[A-Za-z0-9_-]{20,}",
    r"ATAT[A-Za-z0-9_=-]{40,}|figd_[A-Za-z0-9_-]{20,}|ntn_[A-Za-z0-9]{20,}",
    r"gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9_-]{20,}|pplx-[A-Za-z0-9]{20,}",
    r"sb_secret_[A-Za-z0-9_-]{16,}|nfp_[A-Za-z0-9]{20,}|pul-[0-9a-f]{32,}",
    r"pscale_[a-z]{2,5}_[A-Za-z0-9_.=-]{20,}|rubygems_[0-9a-f]{32,}",
    r"sntry[su]_[A-Za-z0-9_=+/]{20,}|dp\.[a-z]{2,5}\.[A-Za-z0-9_-]{20,}",
    r"fm2_[A-Za-z0-9+/=_-]{20,}",
    r"A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}|ATCTT3[A-Za-z0-9_=-]{20,}|ABSK[A-Za-z0-9+/]{40,}=*",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}|pat-(?:na|eu)\d-[0-9a-f-]{36}|pat\.[A-Za-z0-9_.-]{40,}",
    r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}|key_[0-9a-f]{28,}|sk_[0-9a-f]{8}[0-9a-f-]{24,}",
    r"ops_eyJ[A-Za-z0-9+/=]{40,}|ey(?:JrIjoi|JtaXJv)[A-Za-z0-9+/=_-]{30,}|sat\.[\w.-]{40,}",
    r"bedrock-api-key-[A-Za-z0-9+/=]{20,}|AQ\.Ab8[A-Za-z0-9_-]{20,}|sha256~[A-Za-z0-9_-]{40,}",
    r"dt0c01\.[A-Za-z0-9]{20,99}\.[A-Za-z0-9]{20,}|mlsn\.[A-Za-z0-9]{30,}|v1\.0-[0-9a-f-]{80,}",
    r"pa-(?=[A-Za-z_-]{0,40}\d)[\w-]{43}(?![\w-])|al-(?=[A-Za-z_-]{0,40}\d)[\w-]{43}(?![\w-])",
    r"BSA(?=[A-Za-z_-]{0,20}\d)[A-Za-z0-9_-]{24,}|EXO(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{24,30}\b",
    r"cmVmd[A-Za-z0-9]{59}|4b1d[A-Za-z0-9]{38}\b|api_org_[A-Za-z]{34}|API-[A-Z0-9]{26}\b",
    r"EAA[ACM](?=[A-Za-z_-]{0,20}\d)[\w-]{22,}|LTAI[A-Za-z0-9]{16,}|STS\.[A-Za-z0-9]{16,}",
    r"api_live(?:_us|_ca)?\.[A-Za-z0-9_-]{20,}|FlyV1[ \t][A-Za-z0-9=_,/+-]{80,}",
    r"cs_[0-9a-f]{40}|ck_[0-9a-f]{40}|pk_\d{8,9}_[a-z0-9]{32}|cio[A-Za-z0-9]{32}\b",
    r"apk_(?:user_)?[A-Za-z0-9+/]{60,}=*|tfp_[A-Za-z0-9_.=-]{40,}|endr\+[A-Za-z0-9-]{16,}",
    r"BBDC-[A-Za-z0-9+/=]{30,}|SWMKEY-1-[A-Za-z0-9+/]{40,}|AQVN[A-Za-z0-9_-]{35,38}(?![\w-])",
    r"pk\.[a-z0-9]{60}\.[a-z0-9]{20,}|configcat-sdk-1/[\w-]{22}/[\w-]{22}",
    r"t1\.[\w-]{1,250}={0,2}\.[\w-]{86}={0,2}",
    r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}|1001\.[0-9a-f]{32}\.[0-9a-f]{32}|1003\.[0-9a-f]{32,}",
    r"dnkey-[a-z0-9_=-]{26}-[a-z0-9_=-]{52}|duffel_(?:live|test)_[A-Za-z0-9_=-]{43}",
    r"ph[cx]_(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{40,}",
    r"fio-u-[A-Za-z0-9_=-]{64}|vc[aikpr]_(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{40,}",
    r"dvc_(?:client|mobile|server)_[A-Za-z0-9]{8,}|Mid-(?:client|server)-[A-Za-z0-9_]{10,}",
    r"sgp_(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{64}|essu_(?=[A-Za-z_-]{0,30}\d)[A-Za-z0-9_-]{60,}={0,2}",
    r"sgp_(?:local_|[0-9a-fA-F]{16}_)?[0-9a-fA-F]{40}|cnvca[A-Za-z0-9_-]{51}(?![\w-])",
    r"aact_(?:prod|hmlg)_[A-Za-z0-9_-]{20,}|CAIS(?=[A-Za-z+/]{0,30}\d)[A-Za-z0-9_=+/-]{50,}",
    *(
        rf"{kind}_[a-z0-9]{{5,30}}\.[a-z0-9]{{4,6}}\.acc[_-][a-z0-9-]{{10,32}}\.[a-z0-9+/_=-]{{30,}}"
        for kind in ("sc", "ext", "scauth", "authress")
    ),
    r"gcntfy-[a-z0-9_]{1,60}-[0-9a-f-]{73}|sl\.(?:u\.)?(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_=-]{60,}",
    r"PRD-[0-9a-f]{8,12}-[0-9a-f-]{16,}|SBX-[0-9a-f]{8,12}-[0-9a-f-]{16,}",
    r"na1\.(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{20,}|eu1\.(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{20,}",
    r"_gitlab_session=[0-9a-z]{32}|live_(?=[A-Za-z_=-]{0,39}\d)[A-Za-z0-9_=-]{40}(?![\w-])",
    r"pk_(?=[a-z]{0,33}\d)[a-z0-9]{34}\b|live_[0-9a-f]{35}\b|test_[0-9a-f]{35}\b",
    r"live_pub_[0-9a-f]{31}\b|test_pub_[0-9a-f]{31}\b|apikey_[0-9a-f]{32,}",
    r"access-(?:sandbox|development|production)-[0-9a-f-]{36}|os_v2_(?:app|org)_[a-z2-7]{60,}",
    r"KEY(?=[A-Za-z_-]{0,30}\d)(?=[A-Z0-9_-]{0,30}[a-z])[\w-]{55}(?![\w-])",
    r"sq[upa]_[0-9a-f]{40}|oy2[a-z0-9]{43}\b|vk1\.a\.[A-Za-z0-9_-]{40,}",
    r"secret_(?=[A-Za-z]{0,42}\d)[A-Za-z0-9]{43}(?![\w-])|sk\.eyJ[A-Za-z0-9_-]{20,999}\.[A-Za-z0-9_-]{10,}",
    r"AA{21}(?!A)[A-Za-z0-9%]{60,}|wrka[a-z]{0,2}-eyJ[A-Za-z0-9_.-]{40,}",
    r"s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?![\w.\x28])|00[A-Za-z0-9]{13}![A-Za-z0-9._-]{80,}",
    *(
        rf"{prefix}(?=[A-Za-z_-]{{0,40}}(?:\d|[a-z][A-Z]))[A-Za-z0-9_-]{{12,}}"
        for prefix in _BEGINNINGS.split()
    ),
    *(
        rf"{prefix}(?=[A-Za-z]{{0,30}}\d)[A-Za-z0-9]{{16,}}[A-Za-z0-9_-]*"
        for prefix in _SHORT_BEGINNINGS.split()
    ),
    *(
        rf"{prefix}(?=[A-Za-z_-]{{0,30}}\d)(?=[a-z0-9_-]{{0,30}}[A-Z])[A-Za-z0-9_-]{{16,}}"
        for prefix in ("lip_", "prf_", "tss_")
    ),
)


def _by_first(expressions: Iterable[str]) -> str:
    """Group the expressions by their first letter, so that each position is compared with only one
    group."""
    groups: dict[str, list[str]] = {}
    whole = "|".join(expressions)
    depth = begun = 0
    for at, sign in enumerate(f"{whole}|"):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            groups.setdefault(whole[begun], []).append(whole[begun + 1 : at])
            begun = at + 1
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items())


# Each pattern's group `s` is the secret. Repeats before the secret's end are bounded, so that no
# agent's text can make the search slow.
_SHAPES = (
    rf"(?<![A-Za-z0-9])(?P<s>{_by_first(_ISSUED)}|[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{20,}}"
    r"|\d{8,10}:AA[A-Za-z0-9_-]{30,}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"
    r"|[0-9a-fA-F]{32}\.[A-Za-z0-9]{16}(?![\w.-])|[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}\b)",
    r"(?<![\w~.])(?P<s>[\w~.]{3}\dQ~[\w~.-]{31,34})",
    r"\b(?P<s>[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
    r"(?<![A-Za-z0-9_-])(?P<s>eyJ[A-Za-z0-9_-]{4,4000}\.[A-Za-z0-9_-]{4,4000}\.[A-Za-z0-9_-]*)",
    # Docker's file of registries.
    r"\bauth\\{0,7}\"[ \t]{0,3}:[ \t]{0,3}\\{0,7}\"(?=[A-Za-z+/]{0,60}(?:[0-9=]|[A-Z]{2}))"
    r"(?P<s>[A-Za-z0-9+/]{16,}={0,2})",
    r"#code=(?P<s>[A-Za-z0-9_-]{8,})",  # a login link
    r"\b(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)"
    r"/[A-Za-z0-9]{1,30}/"
    r"(?P<s>[A-Za-z0-9_/-]{8,})",
    r"\.webhook\.office\.com/webhookb2/(?P<s>[A-Za-z0-9@/-]{20,})",
    rf"(?i:\bauthorization){_IS}(?:[A-Za-z][A-Za-z0-9-]{{0,20}}[ \t]{{1,3}})?"
    rf"(?!{_OTHER}|{_PLAIN})(?P<s>[A-Za-z0-9_\-.+=~/]{{6,}})",
    rf"(?i:\b(?:bearer|basic|token)[ \t]{{1,3}})(?!{_PROSE})(?P<s>[A-Za-z0-9_\-.+=~/]{{12,}})",
    r"(?i:accountkey|sharedaccesskey|[?&]sig|signature)=(?P<s>[A-Za-z0-9+/=%_-]{8,})",
    r"(?i:[?&]key|x-amz-security-token)=(?P<s>(?=[^\d&]{0,60}\d)[A-Za-z0-9+/=%_-]{12,})",
    r"(?i:\bidentified[ ]{1,3}(?:with[ ]\S{1,60}[ ])?(?:by|as)[ ]{1,3}(?:password[ ])?)\\{0,7}['\"]"
    r"(?P<s>[^'\"\\\n]{2,})",
    # Alone, or with a word on its use; no person has so long a name with digits.
    rf"{_SCHEME}(?P<s>(?=[^\s/:@]{{0,40}}\d)[\w~%-]{{16,255}})(?::x-oauth-basic|:)?@",
    rf"{_SCHEME}[^\s/:@\"']{{0,99}}:(?P<s>[^\s/@\"'$`;|&<>()]{{3,255}})@",
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<s>[A-Za-z0-9+/=\\n\s]{1,9999}?)(?:-----END|\Z)",
)
_SECRET = re.compile(
    "|".join(shape.replace("(?P<s>", f"(?P<s{at}>") for at, shape in enumerate(_SHAPES))
)
# Where a shape can begin: this many characters before a word, in any case, or before a sign.
_WORDS: dict[str, Iterable[int]] = {
    **dict.fromkeys(("authorization", "bearer", "basic", "token", "identified"), (0,)),
    **{"accountkey": (0,), "sharedaccesskey": (0,), "signature=": (0,)},
    **{"sig=": (1,), "key=": (1,), "x-amz-security-token=": (0,)},
}
_SIGNS: dict[str, Iterable[int]] = {
    **dict.fromkeys(("eyJ", "#code=", "hooks.slack.com/", "discord", "-----BEGIN ", "auth"), (0,)),
    **{".atlasv1.": (14,), ":AA": (8, 9, 10), "_mmk": (36,), "==:": (22,), "Q~": (4,)},
    ".webhook.office.com/": (0,),
}
# Only the part that identifies each: the rest of a long token would be read again and again.
_BEGUN = re.sub(r"{(\d+),}(?:\[A-Za-z0-9_-]\*)?", r"{\1}", _by_first(_ISSUED))
_PREFIXED = re.compile(rf"[^A-Za-z0-9](?={_BEGUN})")
_PARTED = re.compile(r"\.(?:[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}|[A-Za-z0-9]{16}(?![\w.-]))")
_SIGNED_IN = re.compile(
    r"://(?:[\w~%-]{16,255}|[^\s/:@\"']{0,99}:[^\s/@\"'$`;|&<>()]{3,255}|[\w~%-]{16,255}:)@"
)
_Stretch = tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]
# A stretch of text: its beginning, its extent, and the secrets in it. Stretches are for flags that
# are secret with one program only, and for a header with many values. A command ends with its line,
# at an unquoted operator, or with the JSON text that contains it; a list at its end.
_END = r"\"[ \t]*(?:[]},:\n]|\Z)"
_COMMAND = (
    rf"(?>(?:[^\n\\;|&'\"]++|\\\r?\n|\\\\\\n|'[^'\n]*'|(?!{_END})\\{{0,7}}\"[^\"\n]*\"|\\\\|\\(?!n)"
    rf"|(?![;|]|&(?:[\s&]|\Z)|{_END})[^\n\\])*)"
)
_GOES = re.compile(rf"\\{{0,7}}[\"'][^]]*+(?>(?:](?=[^\s,}}\]])[^]]*+)*)|{_COMMAND}")
_PAIR = r"[A-Za-z0-9_.-]{1,99}="
_LOGGED_IN = r"[^\s:\"'/=-][^\s:\"'/]{0,99}:(?!//)(?P<r>" + f"{_VALUE}+)"
_LOGIN = (
    rf"(?:(?:=|{_NEXT})\\{{0,7}}'[^\s:\"'/]{{0,99}}:(?!//)(?P<q>[^'\n]+?)\\{{0,7}}'"
    rf"|{_THEN}[^\s:\"'/]{{0,99}}:(?!//)(?P<s>{_VALUE}+))"
)
# One word of a command, bare or quoted; a quoted variable does not count.
_WORD = (
    r"(?:\\{0,7}'(?P<q>[^'\n]+?)\\{0,7}'|\\{0,7}\"(?![,\s$\]])(?P<p>[^\"\n]+?)\\{0,7}\""
    rf"|(?:\\{{0,7}}[\"'](?=[^,\s]))?(?P<s>{_VALUE}+))"
)


def _program(names: str, more: str, holds: str) -> tuple[list[str], _Stretch]:
    """Parse a line of `programs.txt` into the words to look for, and the expression that finds the
    secret."""
    sign, _, names = names.rpartition(":")
    begins = "|".join(rf"{name}(?<![\w.-]{name})" for name in names.split("|"))
    more = more.replace("-", "", more == "-").replace("~", f"{_NEXT}{_QUOTE}")
    holds = holds.replace("~?WORD", f"(?:{_NEXT})?WORD").replace("~WORD", f"{_NEXT}WORD")
    parts = holds.replace("~", f"{_NEXT}{_QUOTE}").split("WORD")
    words = (re.sub(r"\?P<(.)>", rf"?P<\g<1>{at}>", _WORD) for at in range(len(parts) - 1))
    made = "".join(chain.from_iterable(zip(parts, (*words, ""), strict=True)))
    begin = re.compile(rf"(?:{begins}){more}(?=[\s\\\"'])")
    return [sign] if sign else names.split("|"), (begin, _GOES, re.compile(made))


_PROGRAMS = [
    _program(*line.split("  "))
    for line in files(__package__).joinpath("programs.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
_STRETCHES: tuple[_Stretch, ...] = (
    (
        re.compile(r"curl(?<=\bcurl)(?=[\s\\\"'])"),
        _GOES,
        re.compile(
            rf"(?<![\w-])(?:-u|-U|--user|--proxy-user){_LOGIN}|(?<![\w-])-[uU]{_LOGGED_IN}"
            rf"|(?<![\w-])-b{_THEN}{_PAIR}(?P<t>{_VALUE}{{4,}})"
        ),
    ),
    (
        re.compile(r"(?:http(?<=\bhttp)s?|xh(?<=\bxh))(?=[\s\\\"'])"),
        _GOES,
        re.compile(rf"(?<![\w-])(?:-a|--auth){_LOGIN}"),
    ),
    (
        re.compile(r"sshpass(?<=\bsshpass)(?=[\s\\\"'])"),
        re.compile(
            rf"(?:{_NEXT}{_QUOTE}-(?:v|P(?:{_NEXT})?{_QUOTE}[^\s\"'-]{{1,99}}{_QUOTE})){{0,4}}"
            rf"{_NEXT}{_QUOTE}-p(?:{_NEXT})?{_QUOTE}{_VALUE}+"
        ),
        re.compile(rf"(?<![\w-])-p(?:{_THEN})?(?P<s>{_VALUE}+)"),
    ),
    (
        re.compile(rf"(?i:\bcookie{_IS}|--cookie{_THEN})"),
        re.compile(r"[^\"'\n]*+"),
        re.compile(rf"{_PAIR}(?P<s>{_VALUE}{{4,}})"),
    ),
    (  # text piped into a program that reads a secret
        re.compile(r"(?:echo(?<=\becho)|printf)(?=[ \t])"),
        re.compile(r"[^\n;&]*+"),
        re.compile(
            rf"[ \t]{_WORD}(?=[ \t]{{0,3}}\|[^\n;&]{{0,200}}"
            rf"(?:--password-stdin|--with-token|--stdin|\bchpasswd|\bsudo[ \t][^|\n]{{0,80}}-S))"
        ),
    ),
    *(stretch for _, stretch in _PROGRAMS),
)
_STRETCH_SIGNS = (
    *(("curl",), ("http", "xh"), ("sshpass",), ("cookie",)),
    ("-stdin", "--with-token", "chpasswd", "sudo"),
    *(signs for signs, _ in _PROGRAMS),
)
# More characters than any shape needs after a secret's first one to be recognized; and the
# beginnings of the shapes that may need very many.
_REACH, _LONG_REACH = 400, 10_100
_LONG_SIGNS = ("eyJ", "-----BEGIN ")
_NEAR = 100  # more of the value than a secret that begins in its name needs to be located
_SHORT = 1_000  # characters: 4,096 such texts are cached, at most about four megabytes
_DIGEST_CHARS = 8  # as `safe_text.MASK` reads them
_Spelling = Callable[[str], str]
_SpanOf = Callable[[re.Match[str]], tuple[int, int]]
_BETWEEN = '", "'
_NAMES = re.compile(r"[A-Za-z0-9_-]+")
_KEY = bytearray(token_bytes(32))  # random for this process, until `key_masks` is called


def render_safe(
    text: str, *, reveal: bool = False, found: Sequence[tuple[int, int]] | None = None
) -> Visible:
    """Return text in the form that people may see: deceptive characters are escaped, and secrets
    masked.

    With `reveal`, secrets are readable and highlighted. `found` gives the positions of secrets if
    the caller knows more of them than the text shows.
    """
    found = list(secrets_in(text)) if found is None else found
    if reveal or not found:
        return make_visible(text, found)
    parts: list[tuple[str, bool]] = []
    hidden = mixed = False
    done = 0
    for start, end in found:
        before = make_visible(text[done:start])
        parts += [*before.segments, (mask_of(text[start:end]), True)]
        hidden, mixed = hidden or before.hidden, mixed or before.mixed_script
        done = end
    rest = make_visible(text[done:])
    return Visible(
        (*parts, *rest.segments),
        hidden or rest.hidden,
        mixed or rest.mixed_script,
        len(found),
    )


def mask(value: Any, spell: _Spelling = str) -> Any:
    """Return a JSON value, or a string, with secrets masked, as the audit log stores it.

    `spell` converts the text around the secrets.
    """
    if isinstance(value, str):
        return _replace(value, [*secrets_in(value)], spell)
    return _mask_within(value, "", spell)


def _mask_within(value: Any, name: str, spell: _Spelling) -> Any:
    if isinstance(value, dict):
        return {
            mask(member or "", spell): _member(told, item, spell)
            for member, told, item in name_items(value, name)
        }
    if isinstance(value, list | tuple):
        found = across(value)
        return [
            _replace(item, found[at], spell) if at in found else _member(told, item, spell)
            for at, (_, told, item) in enumerate(name_items(value, name))
        ]
    return value


def across(values: Sequence[Any]) -> dict[int, list[tuple[int, int]]]:
    """Return, by position, the secrets in a list's items that earlier items reveal.

    For example, the list may be a command, in which a flag or the program is before the secret.
    """
    if len(values) < 2 or not any(isinstance(one, str) for one in values):  # noqa: PLR2004
        return {}
    words = [one if isinstance(one, str) else "" for one in values]
    # Join them as in JSON, so that each shape reads a list, which no operator in a word ends.
    starts = list(accumulate((len(word) + len(_BETWEEN) for word in words), initial=1))
    joined = f'"{_BETWEEN.join(words)}"'
    found: dict[int, list[tuple[int, int]]] = {}
    flagged = find_named(joined, words=True)
    for start, end in heapq.merge(flagged, _find_stretched(joined)):
        at = bisect_right(starts, start) - 1
        begin = starts[at]
        span = (start - begin, min(end - begin, len(words[at])))
        if span not in set(secrets_in(words[at])):
            found.setdefault(at, []).extend([*secrets_in(words[at]), span])
    return {at: list(_merge(sorted(spans))) for at, spans in found.items()}


def _member(name: str, value: Any, spell: _Spelling) -> Any:
    """Return a member's value with secrets masked. The member's name may show that the value is a
    secret."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _mask_within(value, name, spell)
    if not name:
        return mask(value, spell)
    text = _replace(str(value), [*secrets_behind(name, str(value))], spell)
    if text == str(value):
        return value
    return text if isinstance(value, str) else mask_of(str(value), "secret number")


def _replace(text: str, found: list[tuple[int, int]], spell: _Spelling) -> str:
    parts, done = [], 0
    for start, end in found:
        parts += [spell(text[done:start]), mask_of(text[start:end])]
        done = end
    return "".join([*parts, spell(text[done:])])


def names_secret(address: str) -> bool:
    """Whether a name in the address of a value marks the value as a secret."""
    return any(holds_secrets(f"{name}: {'x1' * 10}") for name in _NAMES.findall(address))


def masks_in(value: Any) -> set[str]:
    """Return the masks in a JSON value."""
    return set(MASK.findall(json.dumps(value, ensure_ascii=False)))


def holds_secrets(text: str) -> bool:
    """Whether the text has a secret to mask."""
    return next(secrets_in(text), None) is not None


def bug(error: Exception) -> str:
    """Return an exception's type and where in the code it was raised, innermost call first, for the
    log.

    The message and all values are left out, because they may contain words of an agent or a person.
    """
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return f"{type(error).__name__} in {' < '.join(f'{one.name}:{one.lineno}' for one in frames)}"


def quote_start(name: str, most: int) -> str:
    """Return the start of a name that an agent chose, quoted as in JSON and masked. "…" means that
    it was shortened.

    Because of the quotes, it cannot imitate the gateway's words.
    """
    begun = start_of(masked := str(mask(name)), most)
    return json.dumps(begun, ensure_ascii=False) + ("" if begun == masked else "…")


def start_of(text: str, most: int) -> str:
    """Return the start of a text, at most `most` characters, without a part of a secret at the end.

    Half a secret would not be recognized as a secret. A long text is searched only as far as a
    secret can reach.
    """
    if len(text) <= most:
        return text
    for start, end in _ends_in_short(text) if len(text) <= _SHORT else _ends_near(text, most):
        if start >= most:
            break
        if end > most:
            return text[:start]
    return text[:most]


@lru_cache(maxsize=4096)
def _ends_in_short(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_merge(_find_secrets(text, len(text), _span_with_end)))


def _ends_near(text: str, most: int) -> Iterator[tuple[int, int]]:
    begun = text[: most + len(max(_LONG_SIGNS, key=len))]
    reach = _LONG_REACH if any(sign in begun for sign in _LONG_SIGNS) else _REACH
    return _merge(_find_secrets(text, most + reach, _span_with_end))


def secrets_in(text: str) -> Iterator[tuple[int, int]]:
    """Return the start and end of each secret in a text, in order."""
    return iter(_secrets_in_short(text) if len(text) <= _SHORT else _secrets_in_long(text))


def secrets_behind(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Return the positions of secrets in a member's value; the member's name may reveal them."""
    named, whole = f"{name}: ", value_behind(name, text)
    if len(text) > _SHORT and not _begins_in(named, text[:_NEAR]):
        found = [*secrets_in(text)]  # already cached, or needed soon
    else:
        spans = [(a - len(named), b - len(named)) for a, b in secrets_in(f"{named}{text}")]
        found = [one for one in spans if one[0] >= 0]
    return _merge(sorted([*found, *whole]))


def _begins_in(name: str, text: str) -> bool:
    """Whether a secret could begin in a name if this text follows the name."""
    if any(sign in fold(name) for sign in chain(STEMS, *_STRETCH_SIGNS)):
        return True
    return min(_list_starts(f"{name}{text}"), default=len(name)) < len(name)


@lru_cache(maxsize=4096)
def _secrets_in_short(text: str) -> tuple[tuple[int, int], ...]:
    """Find secrets, and cache the result, because each platform and each update of a card reads the
    same short texts."""
    return tuple(_merge(_find_secrets(text, len(text), _span)))


@lru_cache(maxsize=8)
def _secrets_in_long(text: str) -> tuple[tuple[int, int], ...]:
    """Find secrets, and cache the result, because the first lines, pages and offers of a long
    request read the same texts."""
    return tuple(_merge(_find_secrets(text, len(text), _span)))


def _find_secrets(text: str, end: int, span: _SpanOf) -> Iterator[tuple[int, int]]:
    within = text[:end]
    return heapq.merge(map(span, _find_shaped(within)), _find_stretched(within), find_named(within))


def _find_shaped(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_SECRET`. Only positions where a secret can begin are tried."""
    done = 0
    for at in sorted(_list_starts(text)):
        if at >= done and (match := _SECRET.match(text, at)):
            done = match.end()
            yield match


def _list_starts(text: str) -> set[int]:
    """Return every position where a secret can begin, and possibly others."""
    folded = fold(text)
    starts = {match.start() for match in _PREFIXED.finditer(f" {text}")}
    for signs, searched in ((_WORDS, folded), (_SIGNS, text)):
        for sign, before in signs.items():
            at = searched.find(sign)
            while at >= 0:
                starts.update(at - back for back in before if at >= back)
                at = searched.find(sign, at + 1)
    for match in _PARTED.finditer(text) if "." in text else ():
        starts.update(range(max(match.start() - 32, 0), match.start()))
    if "@" in text:
        for match in _SIGNED_IN.finditer(text):
            starts.update(range(max(match.start() - 16, 0), match.start()))
    return starts


def _find_stretched(text: str) -> Iterator[tuple[int, int]]:
    """Yield the secrets that can only be recognized by an earlier word, in order."""
    folded = fold(text)
    return heapq.merge(
        *(
            _in_stretches(text, *one)
            for signs, one in zip(_STRETCH_SIGNS, _STRETCHES, strict=True)
            if any(sign in folded for sign in signs)
        )
    )


def _in_stretches(
    text: str, begins: re.Pattern[str], goes: re.Pattern[str], holds: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    done = 0
    for begun in begins.finditer(text):
        if begun.end() < done:
            continue  # inside a searched stretch
        gone = goes.match(text, begun.end())
        done = gone.end() if gone else begun.end()
        yield from (_span(match) for match in holds.finditer(text, begun.end(), done))


def _span(match: re.Match[str]) -> tuple[int, int]:
    return match.span(match.lastgroup or 0)


def _span_with_end(match: re.Match[str]) -> tuple[int, int]:
    """Return the start of a secret, and the end of the text that identifies it."""
    return match.start(match.lastgroup or 0), match.end()


def _merge(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge overlapping spans; the spans must be in order."""
    begun: tuple[int, int] | None = None
    for start, end in spans:
        if begun is not None and start < begun[1]:
            begun = (begun[0], max(begun[1], end))
            continue
        if begun is not None:
            yield begun
        begun = (start, end)
    if begun is not None:
        yield begun


def mask_of(secret: str, what: str = "secret") -> str:
    """Return the mask that replaces a secret in texts for people."""
    whole = hmac.digest(_KEY, secret.encode("utf-8", "surrogatepass"), "sha256")
    return f"⟨{what} of {len(secret)} characters, digest {whole.hex()[:_DIGEST_CHARS]}…⟩"


def key_masks(key: bytes) -> None:
    """Set the key for the digests in masks. Call it once, at the start.

    All replicas use the same key, so that they draw the same masks. Without a key, anybody could
    find a PIN by trying all of them.
    """
    _KEY[:] = hmac.digest(key, b"masks", "sha256")


# Hides the secrets of a request in every text made from it: start with `list_known`.
#
# Some values are secrets only because of their place: a member's name, or the flag before them. A
# text made from the request can repeat the value without that place, so its shape does not help.

_LEAST = 4  # characters: shorter values are not searched for
_SHORTEST_WITHIN = 8  # characters: shorter values are not searched for within words
_NAME = 12  # characters: shorter parts of a path-like secret are not searched for
_PIECES = re.compile(r"(?:\s|\\+[nr])+")  # splits a key into lines, as in files or commands
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|(?<= = )[^,]+')  # also as offers write values


def list_known(
    values: Iterable[Any], beside: Iterable[str] = (), remarks: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the secrets in JSON values and in `remarks` about them, the longest first.

    A secret that is also readable elsewhere in the values, or in `beside`, is left out: people read
    it anyway. Otherwise an agent could hide its own words by calling one of them a password.
    """
    secrets = {text[start:end] for text in remarks for start, end in secrets_in(text)}
    clear = [*beside]
    for text, spans in _list_texts(list(values), ""):
        done = 0
        for start, end in spans:
            pieces = _PIECES.split(text[start:end])
            # Texts may show a path by its last name alone.
            names = [one for piece in pieces for one in piece.split("/") if len(one) >= _NAME]
            secrets.update((text[start:end], *pieces, *names))
            clear.append(text[done:start])
            done = end
        clear.append(text[done:])
    rest = "\n".join(clear) if secrets else ""
    known = (one for one in secrets if len(one) >= _LEAST and one not in rest)
    return tuple(sorted(known, key=lambda one: (-len(one), one)))


def find_known(text: str, known: Sequence[str], *, named: bool = False) -> list[Span]:
    """Return the positions of secrets in a text made from a request.

    It finds secrets by their form, and the `known` secrets, whole or cut off at "…". If a known
    secret is a plain word, it counts only in quotation marks, or if the whole text is `named` in
    the request. So the gateway's own words are never hidden.
    """
    found = [*secrets_in(text)]
    quoted: list[Span] | None = [(0, len(text))] if named else None
    for secret in known:
        if secret.isalpha() and quoted is None:
            quoted = [one.span() for one in _QUOTED.finditer(text)]
        within = quoted if secret.isalpha() and quoted is not None else [(0, len(text))]
        for spelled in _spell(secret):
            for begin, end in within:
                found += _find(spelled, text, begin, end)
            if "…" in text and not secret.isalpha():
                found += _find_cut(spelled, text)
    return _join(found)


def hide_known(text: str, known: Sequence[str], *, named: bool = False) -> str:
    """Return a text in which everything that `find_known` finds is masked."""
    parts, done = [], 0
    for start, end in find_known(text, known, named=named):
        parts += [text[done:start], mask_of(text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def hide_in(value: Any, known: Sequence[str]) -> Any:
    """Return a JSON value with its secrets masked, and with known secrets masked in all its
    texts."""
    return _hide_beside(value, mask(value), known)


def _hide_beside(value: Any, masked: Any, known: Sequence[str]) -> Any:
    """Hide known secrets in a value. In `masked`, each member has already been masked according to
    its name."""
    if not known:
        return masked
    if isinstance(value, str):
        return masked if masked != mask(value) else hide_known(value, known)
    if isinstance(value, dict) and len(value) == len(masked):
        pairs = zip(value.items(), masked.values(), strict=True)
        return {
            hide_known(name, known): _hide_beside(one, two, known) for (name, one), two in pairs
        }
    if isinstance(value, list | tuple):
        return [_hide_beside(one, two, known) for one, two in zip(value, masked, strict=True)]
    return masked


def _list_texts(value: Any, name: str) -> Iterator[tuple[str, list[Span]]]:
    """Yield each text in a value with the positions of the secrets that `mask` finds in it."""
    if isinstance(value, dict | list | tuple):
        found = {} if isinstance(value, dict) else across(value)
        for at, (member, told, item) in enumerate(name_items(value, name)):
            if member is not None:
                yield member, [*secrets_in(member)]
            yield from ((item, found[at]),) if at in found else _list_texts(item, told)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        spans = [*secrets_in(text)]
        if name:
            spans += secrets_behind(name, text)
        yield text, _join(spans)


@lru_cache(maxsize=4096)
def _spell(secret: str) -> set[str]:
    """Return the ways in which a secret can be written: plain, and as in JSON."""
    return {secret, *(json.dumps(secret, ensure_ascii=one)[1:-1] for one in (True, False))}


def _find(secret: str, text: str, begin: int, end: int) -> Iterator[Span]:
    alone = secret.isalpha() or len(secret) < _SHORTEST_WITHIN
    at = text.find(secret, begin, end)
    while at >= 0:
        stop = at + len(secret)
        if not (alone and (text[at - 1 : at].isalnum() or text[stop : stop + 1].isalnum())):
            yield at, stop
        at = text.find(secret, at + 1, end)


def _find_cut(secret: str, text: str) -> Iterator[Span]:
    """Yield the start of a secret before "…", and the end of the secret after it."""
    for cut in re.finditer('"?…', text):
        begin, end = cut.span()
        # Checking the characters next to the cut first rules out most secrets quickly.
        before = text[max(0, begin - _LEAST) : begin] in secret
        for length in range(min(len(secret) - 1, begin), _LEAST - 1, -1) if before else ():
            if text.endswith(secret[:length], 0, begin):
                yield begin - length, begin
                break
        behind = text[end : end + _LEAST] in secret
        for length in range(len(secret) - 1, _LEAST - 1, -1) if behind else ():
            if text.startswith(secret[-length:], end):
                yield end, end + length
                break


def _join(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and merge overlapping ones."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
