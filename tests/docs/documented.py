"""Every command that a document prints: run here, run by another test, or why not.

Capitals such as ID stand for what `reader.py` fills in. A new command of a document belongs into
one of these tables, and one that no document has any more into none.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.frame.tree import ROOT

START = """GATEWAY_ADAPTERS='["web","saiki"]' gateway up"""
"""How the gateway of these tests is started, as a page prints it."""


class Line(NamedTuple):
    """One line that is typed, and what comes of it."""

    says: str
    """A pattern of what it prints."""
    code: int = 0
    typed: str = ""
    """The line, where the document prints a form of several."""
    first: tuple[str, ...] = ()
    """What the page has a reader type before."""
    answer: str = ""
    """What a person does meanwhile."""
    then: tuple[str, ...] = ()
    """What must end with 0 afterwards: how its work is seen, or undone for the others."""


NAMED = Line("required", code=2)
"""A command that a sentence names without its words: it is there, and misses them."""
FORGET = ("gateway grant revoke --all",)
ASKED = ("gateway show ID",)
ADMIN = ("gateway apply policy.toml",)
UNLIKE = ("gateway approver add NAME",)

COMMANDS: dict[str, Line | list[Line]] = {
    "make": Line("make demo +try the product", typed=f"make -C '{ROOT}'"),
    "gateway --help": Line("approve requests as yourself"),
    "gateway --version": Line(r"gateway \d+\.\d+\.\d+"),
    "python -m gateway.cli": Line("^running +yes"),
    "python -m gateway.client": Line("gateway ask TOOL .* or gateway wait ID", code=2),
    "python -c pass": Line(r"\A\Z"),
    'python -c "import base64, os; print(base64.b64encode(os.urandom(32)).decode())"': Line(
        r"\A[\w+/]{43}=\n\Z"
    ),
    'python -c "import os; from gateway.wire.signatures import Signer; '
    "print(Signer(os.environ['GATEWAY_SIGNING_KEY']).public_key)\"": Line(
        r"\A[\w+/]{43}=\n\Z",
        typed=f"GATEWAY_SIGNING_KEY={'A' * 43}= python -c "
        '"import os; from gateway.wire.signatures import Signer; '
        "print(Signer(os.environ['GATEWAY_SIGNING_KEY']).public_key)\"",
    ),
    # What agents ask.
    "gateway ask --no-wait": Line("name the tool", code=2),
    "gateway ask --human": Line(
        "approved by owner", typed="gateway ask --human shell -- ls", answer="approve"
    ),
    "gateway ask --json": Line(
        '(?s)"arguments":.*"command": "ls"',
        typed="gateway ask --json shell -- ls",
        answer="approve",
    ),
    "gateway run -- ./deploy.sh production": Line("denied by owner", code=121, answer="deny"),
    "gateway run -- echo deployed to production": Line(
        "^deployed to production$", answer="approve --yes"
    ),
    "gateway run -- rm -rf build": Line("approved by owner", answer="approve"),
    "gateway ask shell -- echo hello": Line("approved by owner", answer="approve"),
    "gateway ask shell -- make deploy": Line(
        "denied by owner: no", code=1, answer="deny --reason no"
    ),
    "gateway ask shell -- touch x && touch x": Line("approved by owner", answer="approve"),
    "gateway ask shell --cwd build -- make && (cd build && make)": Line("^made$", answer="approve"),
    'cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"': Line(
        "^deployed$", answer="approve"
    ),
    "gateway ask shell --file deploy.sh -- ./deploy.sh && ./deploy.sh": Line(
        "^deployed$", answer="approve --yes"
    ),
    # What people answer.
    "gateway pending": [
        Line("ls -l", typed="gateway pending", first=ASKED),
        Line(
            "gateway pending --limit 1 --after",
            typed="gateway pending --limit 1",
            first=("gateway show ID2",),
        ),
        Line(
            "ls -l",
            typed="gateway pending --limit 1 "
            "--after $(gateway pending --limit 1 2>&1 | sed -n 's/.*--after //p')",
        ),
    ],
    "gateway show ID": Line("ls -l"),
    "gateway history": [
        Line("owner denied", typed="gateway history", first=("gateway deny ID ID2",)),
        Line("gateway history --limit 1 --after", typed="gateway history --limit 1"),
        Line(
            "owner denied",
            typed="gateway history --limit 1 "
            "--after $(gateway history --limit 1 2>&1 | sed -n 's/.*--after //p')",
        ),
    ],
    "gateway approve ID": Line("owner approved"),
    'gateway deny ID --reason "why"': Line("owner denied", then=("gateway show ID | grep why",)),
    'gateway deny ID --reason "not during the sale"': Line(
        "owner denied", then=("gateway show ID | grep 'not during the sale'",)
    ),
    # What is remembered.
    "gateway grant offers ID": Line("approve  [0-9a-f]{16}  exactly this"),
    "gateway grant add coder --tool shell --kind command "
    """--arguments '{"command": "git log"}' --cwd /srv/app""": Line(
        'exactly this: "git log" in /srv/app', code=2
    ),
    "gateway grant add coder --like 3f9c2a71 --offer 5a82e156737e42ae --for 1d --uses 20": Line(
        "(?s)in 23 h.*exactly this.*used 0 of 20 times", then=FORGET
    ),
    "gateway grant list --suspended": Line("no grants are suspended"),
    "gateway grant revoke ID": Line(
        "is revoked",
        first=("gateway approve ID --remember",),
        typed="gateway grant revoke GRANT",
    ),
    "gateway grant pass AGENT SESSION --edits --hours 2": Line(
        "creating, changing and moving files .*not deleting", then=FORGET
    ),
    # Agents and people.
    "gateway agent add NAME": Line("(?s)token +agw_.*redis user"),
    **{
        f"gateway agent add {name}": Line(rf"(?s)token +agw_.*GATEWAY_AGENT={name}")
        for name in (
            "bot",
            "ci",
            "claude-code",
            "dexto",
            "go",
            "gptme",
            "picoclaw",
            "refunds",
        )
    },
    "gateway approver add ana": Line("token +agw_", first=ADMIN),
    "gateway approver add ana --admin": Line(
        "token +agw_", typed="gateway approver add NAME --admin"
    ),
    "gateway approver add ben": Line("token +agw_"),
    "gateway agent rotate NAME": Line("token +agw_", first=("gateway agent add NAME",)),
    "gateway agent rotate NAME --now": Line("token +agw_", first=("gateway agent add NAME",)),
    "gateway agent revoke NAME": Line("is revoked", first=("gateway agent add NAME",)),
    "gateway approver add NAME": Line("token +agw_"),
    "gateway approver rotate NAME --now": Line("token +agw_", first=("gateway approver add NAME",)),
    "gateway archive give-up --yes": Line("nothing is lost"),
    "gateway pending --json": Line('"approvers"', first=ASKED),
    "gateway approver revoke NAME": Line(
        "may not decide any more", first=("gateway approver add NAME",)
    ),
    "gateway login NAME": Line("/inbox/login#code=", first=("gateway approver add NAME",)),
    "gateway login ana": Line("/inbox/login#code=", first=ADMIN),
    "gateway login owner": Line("/inbox/login#code="),
    "gateway devices NAME": Line("is not signed in on any device"),
    "gateway devices NAME --end-all": Line(r"was signed out on 0 device\(s\)"),
    # The policy.
    "gateway apply FILE": Line("active on every replica", first=UNLIKE),
    "gateway apply policy.toml": Line("active on every replica", first=UNLIKE),
    "gateway apply policy.toml --check": Line(
        "nothing was changed", first=("gateway approver add NAME",)
    ),
    "gateway policy show": Line('"people"'),
    "gateway policy export": Line(r"^\[\[people\]\]$"),
    "gateway policy export > policy.toml": Line(
        r"\A\Z", then=("gateway apply policy.toml | grep 'already the active policy'",)
    ),
    "gateway policy test policy.toml --days 7": Line("requests replayed: "),
    "gateway policy test policy.toml": Line("refused by people, and this file allows it: 0"),
    "gateway status": Line("(?s)^running +yes.*^next +gateway"),
    "gateway tool declare post_note channel=recipient 'notes[].text=data' "
    "--agents 'bot,ci-*'": Line('(?s)name = "post_note".*"notes\\[\\].text" = "data"'),
    "gateway tool declare todo_write --harmless --yes": Line("harmless = true"),
    "gateway tool list": Line(
        'name = "list_notes"', first=("gateway tool declare list_notes --harmless --yes",)
    ),
    "gateway explain AGENT TOOL": Line("result: people are asked"),
    "gateway explain support shell --origin slack:T024BE7LD/C0TALK": Line(
        "(?s)no agent support.*shown in web"
    ),
    """gateway explain coder deploy --arguments '{"env": "production"}'""": Line(
        r"(?s)route \S+ at \w+ risk: 1 of \w+.*result: people are asked"
    ),
    # Looking after it.
    "gateway audit export audit.jsonl": Line("lines written", then=("grep seal audit.jsonl",)),
    "gateway audit verify audit.jsonl": Line(
        "nothing is wrong",
        first=("gateway audit export audit.jsonl",),
        typed="GATEWAY_DATA_DIR=none REDIS_URL=redis://127.0.0.1:1 "
        "gateway audit verify audit.jsonl",
    ),
    "gateway audit evidence ID evidence.html": Line("nothing is wrong", first=("gateway deny ID",)),
    "gateway audit evidence 2026Q4 quarter.html": Line("nothing is wrong"),
    "gateway audit verify evidence.html --key KEY": Line(
        "nothing is wrong",
        first=("gateway audit evidence ID evidence.html",),
        typed="GATEWAY_DATA_DIR=none REDIS_URL=redis://127.0.0.1:1 "
        "gateway audit verify evidence.html --key "
        "$(sed -n 's/.*public_key&quot;: &quot;\\([^&]*\\)&quot;.*/\\1/p' evidence.html)",
    ),
    "gateway audit erase ID": Line("keeps its digest", first=("gateway deny ID",)),
    "gateway audit export --form interchange FILE": Line("lines written"),
    "gateway audit export --form trace FILE": Line("lines written"),
    "gateway backup": NAMED,
    "gateway backup gw.backup": Line(r"^gw\.backup is complete: \d+ lines"),
    "gateway restore": [
        Line("name either a backup or", code=2, typed="gateway restore"),
        Line("no agents are held back", typed="gateway restore --confirm agents"),
    ],
    "gateway stop-all": Line("Every new request is denied", then=("gateway resume",)),
    "gateway resume": Line("Agents can ask again", first=("gateway stop-all",)),
    "gateway bridge gptme-server --url http://127.0.0.1:5700": Line(
        "gateway: http://127.0.0.1:\\d+ does not respond", code=5
    ),
    "gateway slack manifest": Line('"redirect_urls"|"features"'),
    "gateway slack manifest --http https://your.host": Line("https://your.host/slack/events"),
    "gateway approver link NAME slack": Line(
        "type: +/approvals me [0-9A-Z]{4}-", first=("gateway approver add NAME",)
    ),
    # Over HTTP.
    'curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8787/v1/requests': Line(
        '"revision": ?1', first=ASKED
    ),
    'curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" '
    """-d '{"action": "approve", "revision": 1}' """
    "http://127.0.0.1:8787/v1/requests/$ID/decide": Line('"approved"'),
    "curl -s http://127.0.0.1:8787/api/tool-confirmation-login "
    """-H 'Content-Type: application/json' -d '{"code":"…"}'""": Line(
        '"token": ?"',
        typed="curl -s http://127.0.0.1:8787/api/tool-confirmation-login "
        """-H 'Content-Type: application/json' -d '{"code":"CODE"}'""",
    ),
    "curl -s http://127.0.0.1:8787/api/tool-confirmation/ID.1 "
    """-H "Authorization: Bearer $TOKEN" """
    """-H 'Content-Type: application/json' -d '{"approved":true}'""": Line(
        '"success": ?true',
        typed="S=$(curl -s http://127.0.0.1:8787/api/tool-confirmation-login "
        """-H 'Content-Type: application/json' -d '{"code":"CODE"}' | """
        """python -c "import json, sys; print(json.load(sys.stdin)['token'])") && """
        "curl -s http://127.0.0.1:8787/api/tool-confirmation/ID.1 "
        """-H "Authorization: Bearer $S" """
        """-H 'Content-Type: application/json' -d '{"approved":true}'""",
    ),
    "gateway ask": [
        Line(
            "approved by owner",
            typed="gateway ask shell --kind command --arguments JSON --timeout 60 --agent local",
            answer="approve",
        ),
        Line("approved by owner", typed="gateway ask TOOL", answer="approve"),
        Line(
            "denied by owner",
            code=1,
            typed="gateway ask TOOL --hint 'it is old' -- COMMAND",
            answer="deny",
        ),
        Line(
            "approved by owner",
            typed="gateway ask shell --file deploy.sh -- ls",
            answer="approve --yes",
        ),
        Line(
            "approved by owner",
            typed="gateway ask shell --cwd build -- make",
            answer="approve",
            then=("gateway history --limit 1 | grep 'in the folder \"[^ ]*/build\"'",),
        ),
        Line(
            "approved by owner",
            typed="gateway ask post --arg text=done --role text=data",
            answer="approve",
        ),
        Line(r"(?s)\A(?!.*run)\{\"id\"", code=6, typed="gateway ask --no-wait shell -- ls && run"),
        Line(
            "approved by owner",
            answer="approve",
            typed="gateway ask post --arg channel=#ops --arg text=done --role text=data",
        ),
        Line(
            "^made$",
            answer="approve",
            first=("rm Makefile",),
            typed='cmd=$(gateway ask shell --cwd build --edit -- make) && eval "$cmd"',
        ),
    ],
    "gateway wait": [
        Line(
            "approved by owner",
            first=("gateway approve REQUEST",),
            typed="gateway wait REQUEST --agent local",
        ),
        Line("approved by owner", first=("gateway approve ID",), typed="gateway wait ID"),
    ],
    "gateway run": [
        Line(
            "^made$",
            typed="gateway run --human --cwd build --hint why --session s "
            "--timeout 60 --agent local -- make",
            answer="approve",
        ),
        Line(
            "^edits$",
            typed="gateway run --edit --file deploy.sh -- echo edits",
            answer="approve --yes",
        ),
    ],
    "gateway approve": [
        Line("(?s)owner approved.*owner approved", typed="gateway approve ID2 ID3"),
        Line("owner approved", typed="gateway approve REQUEST --yes"),
        Line("(?s)owner approved .*@2$", typed="gateway approve ID4@REVISION"),
        Line(
            "owner approved",
            typed="gateway approve ID --remember OFFER --for 1d --uses 5 --everywhere",
            then=("gateway grant list | grep 'used 0 of 5 times'", *FORGET),
        ),
    ],
    "gateway deny": [
        Line("(?s)owner denied.*owner denied", typed="gateway deny ID2 ID3 --reason why"),
        Line(
            "asked for another plan",
            typed="gateway deny REQUEST --reason why --feedback",
        ),
        Line(
            "owner denied",
            then=("gateway grant list | grep 'deny agent .*in 59 min'", *FORGET),
            typed="gateway deny ID4 --remember",
        ),
        Line(
            "owner denied",
            typed="gateway deny ID --remember OFFER --for 1d --uses 5 --everywhere",
            then=("gateway grant list | grep 'used 0 of 5 times'", *FORGET),
        ),
    ],
    "gateway sessions": [
        Line("local +default", typed="gateway sessions --agent AGENT", first=ASKED),
        Line(
            "requests cancelled with it: 1",
            first=("gateway ask shell --session NAME --no-wait -- ls",),
            typed="gateway sessions --end NAME --agent AGENT",
        ),
    ],
    "gateway grant offers": Line(
        "approve  [0-9a-f]{16}  exactly this", typed="gateway grant offers ID"
    ),
    "gateway grant add": [
        Line(
            "choose one of them with --offer ID", code=2, typed="gateway grant add AGENT --like ID"
        ),
        Line(
            "(?s)deny agent .* session .default., .*in 59 min.*exactly this.*used 0 of 2 times",
            typed="gateway grant add AGENT --like ID --offer OFFER "
            "--deny --session SESSION --for 1h --uses 2",
        ),
        Line("1 revoked", typed="gateway grant revoke --agent AGENT --session SESSION"),
        Line(
            "choose one of them with --offer ID",
            code=2,
            typed="gateway grant add AGENT --tool shell --arguments JSON "
            "--kind command --cwd /srv --host ci",
        ),
    ],
    "gateway grant pass": [
        Line("reading, searching", typed="gateway grant pass AGENT SESSION"),
        Line("project's tests", typed="gateway grant pass AGENT SESSION --scripts"),
        Line(
            "(?s)in 119 min.*moving files",
            typed="gateway grant pass AGENT SESSION --edits --hours 2",
        ),
        Line(
            "(?s)reading.*of 5 times",
            typed="gateway grant pass AGENT SESSION --next 5",
            then=FORGET,
        ),
    ],
    "gateway grant list": [
        Line(
            "exactly this",
            first=("gateway approve ID --remember",),
            typed="gateway grant list --agent local",
        ),
        Line("no grants are suspended", typed="gateway grant list --suspended", then=FORGET),
    ],
    "gateway grant show": Line(
        "all sessions|default",
        first=("gateway approve ID --remember",),
        typed="gateway grant show GRANT",
        then=FORGET,
    ),
    "gateway grant revoke": [
        Line(
            "is revoked",
            first=("gateway approve ID --remember",),
            typed="gateway grant revoke GRANT",
        ),
        Line("0 revoked|nothing", typed="gateway grant revoke --all"),
        Line("revoked", typed="gateway grant revoke --agent AGENT --session SESSION"),
    ],
    "gateway agent add": Line("token +agw_", typed="gateway agent add NAME --owner PERSON"),
    "gateway agent list": Line(
        "owner", typed="gateway agent list", first=("gateway agent add NAME --owner PERSON",)
    ),
    "gateway agent rotate": [
        Line("token +agw_", typed="gateway agent rotate NAME", first=("gateway agent add NAME",)),
        Line("token +agw_", typed="gateway agent rotate NAME --overlap 1h"),
        Line("token +agw_", typed="gateway agent rotate NAME --now"),
    ],
    "gateway agent revoke": Line(
        "is revoked", typed="gateway agent revoke NAME", first=("gateway agent add NAME",)
    ),
    "gateway approver add": Line("token +agw_", typed="gateway approver add NAME --admin"),
    "gateway approver list": Line("owner +admin"),
    "gateway approver rotate": [
        Line(
            "the old token is valid until",
            typed="gateway approver rotate NAME",
            first=("gateway approver add NAME",),
        ),
        Line("the old token is valid until", typed="gateway approver rotate NAME --overlap 1h"),
        Line("token +agw_", typed="gateway approver rotate NAME --now"),
    ],
    "gateway approver revoke": Line(
        "may not decide any more",
        typed="gateway approver revoke NAME",
        first=("gateway approver add NAME",),
    ),
    "gateway approver link": Line(
        "type: +/approvals me [0-9A-Z]{4}-",
        typed="gateway approver link NAME slack",
        first=("gateway approver add NAME",),
    ),
    "gateway login": Line(
        "/inbox/login#code=", typed="gateway login NAME", first=("gateway approver add NAME",)
    ),
    "gateway apply": [
        Line(
            "nothing was changed",
            typed="gateway apply FILE --check",
            first=("gateway approver add NAME",),
        ),
        Line("active on every replica", typed="gateway apply FILE --by NAME"),
        Line("--yes", code=2, typed="gateway apply empty.toml"),
        Line("active on every replica", typed="gateway apply empty.toml --yes", then=ADMIN),
    ],
    "gateway policy test": [
        Line("requests replayed: ", typed="gateway policy test policy.toml --days 1"),
    ],
    "gateway tool declare": [
        Line(
            "(?s)harmless = true.*^text = .data",
            typed="gateway tool declare NAME text=data --harmless --agents bot --yes",
        ),
    ],
    "gateway explain": [
        Line(
            "people are asked",
            typed="gateway explain AGENT TOOL --arguments JSON "
            "--kind command --session s2 --cwd /srv",
        ),
        Line("(?s)kind tool.*people are asked", typed="gateway explain AGENT TOOL"),
        Line("(?s)kind command.*people are asked", typed="gateway explain AGENT TOOL -- COMMAND"),
    ],
    "gateway report": [
        Line("decisions", typed="gateway report --days 30", first=("gateway deny ID",)),
    ],
    "gateway audit tail --lines 1000": Line("asked for approval", first=ASKED),
    "gateway audit tail": [
        Line("applied a policy|asked for approval", typed="gateway audit tail", first=ASKED),
        Line("owner denied", typed="gateway audit tail --lines 1", first=("gateway deny ID",)),
    ],
    "gateway audit export": [
        Line("lines written", typed="gateway audit export FILE --form trace"),
        Line("lines written", typed="gateway audit export FILE"),
    ],
    "gateway audit verify": [
        Line("lines written", typed="gateway audit export FILE"),
        Line("nothing is wrong", typed="gateway audit verify FILE"),
        Line("nothing is wrong", typed="gateway audit verify FILE --key unused"),
    ],
    "gateway audit evidence": [
        Line("nothing is wrong", typed="gateway audit evidence ID FILE --by ana", first=ASKED),
    ],
    "gateway audit erase": Line(
        "keeps its digest", typed="gateway audit erase ID", first=("gateway deny ID",)
    ),
    "gateway archive give-up": [
        Line("nothing is lost", typed="gateway archive give-up --yes"),
    ],
    "gateway show": Line("ls -l", typed="gateway show ID"),
    "gateway COMMAND --help": Line("number or ID@REVISION", typed="gateway approve --help"),
    "gateway wait --timeout": Line("", code=6, typed="gateway wait ID --timeout 0.1"),
}

_BACKUP = "docs/test_backup_page.py::test_the_page_brings_a_gateway_back"
ELSEWHERE = {
    "gateway restore gw.backup": _BACKUP,
    "gateway restore --confirm grants": _BACKUP,
    "gateway restore --confirm agents": _BACKUP,
    "gateway restore --confirm sign-ins": _BACKUP,
    "gateway restore --confirm links": _BACKUP,
    "redis-cli --user gateway ACL SETUSER gateway '>NEW'": (
        "backup/test_rotation.py::test_a_new_redis_password_stops_nothing"
    ),
    "redis-cli --user gateway ACL SETUSER gateway '<OLD'": (
        "backup/test_rotation.py::test_a_new_redis_password_stops_nothing"
    ),
    "redis-cli --user gateway ACL SAVE": (
        "backup/test_rotation.py::test_a_new_redis_password_stops_nothing"
    ),
    "GATEWAY_SLACK_BOT_TOKEN=NEW gateway slack setup --non-interactive": (
        "backup/test_rotation.py::test_a_new_chat_token_replaces_the_old_one"
    ),
    "GATEWAY_PUBLIC_URL=https://approvals.example GATEWAY_TRUSTED_PROXY=true gateway up": (
        "web/test_https.py::test_a_phone_signs_in_and_hears_at_once"
    ),
    "GATEWAY_PUBLIC_URL=https://approvals.example:8787 GATEWAY_HOST=0.0.0.0 "
    "GATEWAY_TLS_CERT=/etc/ssl/approvals.pem GATEWAY_TLS_KEY=/etc/ssl/approvals.key gateway up": (
        "web/test_https.py::test_a_phone_signs_in_and_hears_at_once"
    ),
    "gateway team init": "cli/test_team.py::test_it_asks_at_a_terminal",
    "gateway team links": "cli/test_team.py::test_each_person_gets_a_link",
    **dict.fromkeys(
        (
            "docker compose up --detach --build",
            "docker compose exec gateway gateway team links",
            "docker compose exec gateway gateway agent add coder",
        ),
        "frame/test_image.py::test_a_team_starts_from_its_files_and_answers",
    ),
    **dict.fromkeys(
        (
            "docker compose exec gateway sh -c 'kill -HUP 1'",
            "docker compose exec gateway gateway policy show",
            "docker compose logs gateway",
        ),
        "frame/test_image.py::test_a_changed_policy_is_read_again",
    ),
    **dict.fromkeys(
        (
            "docker compose exec gateway gateway stop-all",
            "docker compose exec gateway gateway resume",
        ),
        "frame/test_image.py::test_an_operator_stops_every_agent",
    ),
    **dict.fromkeys(
        (
            "docker compose exec gateway gateway doctor",
            "docker compose exec slack gateway doctor --live",
            "docker compose logs gateway slack",
            "docker compose ps",
            "docker compose exec gateway gateway backup /tmp/gw.backup",
            "(umask 077; docker compose exec -T gateway cat /tmp/gw.backup > gw.backup)",
            "docker compose exec gateway rm /tmp/gw.backup",
            "docker compose down --volumes",
            "docker compose run --rm -T --entrypoint sh gateway -c "
            "'cat > /tmp/b && gateway restore /tmp/b' < gw.backup",
            "docker compose up --detach --build --wait",
            "docker compose exec gateway gateway restore --confirm agents",
            "docker compose exec gateway gateway restore --confirm sign-ins",
            "docker compose exec gateway gateway --version",
            "docker compose exec gateway gateway agent rotate coder",
        ),
        "guide/test_guide.py::test_the_guide_leads_to_a_team",
    ),
    "gateway up --lan": "cli/test_lan.py::test_a_phone_signs_in_once",
    "python -m tests.frame.measures": "frame/test_measures.py::test_each_figure_is_printed",
    "gateway down": "cli/test_running.py::test_it_starts_in_the_background_and_is_ended",
    "gateway demo": "cli/test_cli.py::test_the_demo_answers_its_own_requests_without_a_terminal",
    "gateway --env-file FILE COMMAND": (
        "cli/test_env_file.py::test_an_unknown_setting_is_said_at_the_start"
    ),
    "gateway up --detach": "cli/test_running.py::test_it_starts_in_the_background_and_is_ended",
    "gateway --env-file FILE up": (
        "cli/test_env_file.py::test_an_unknown_setting_is_said_at_the_start"
    ),
    "gateway doctor --live": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway doctor --live --with-me": "slack/test_live_trial.py::test_all_is_well",
    "gateway hook": "hosts/test_hook_process.py::test_whatever_goes_wrong_blocks",
    **dict.fromkeys(
        (
            "gateway install",
            "gateway install HOST --check",
            *(
                f"gateway install {host}{more}"
                for host in ("claude-code", "codex", "gemini", "cursor", "copilot", "opencode")
                for more in ("", " --check", " --undo")
            ),
        ),
        "hosts/test_install.py::test_in_both_directions_it_leaves_a_home_as_it_was",
    ),
    "gateway install claude-code --defer": (
        "hosts/test_claude_code.py::test_a_run_in_ci_ends_and_goes_on_when_it_was_answered"
    ),
    "gateway install claude-code --http": (
        "hosts/test_install.py::test_by_http_the_check_makes_the_hosts_own_call"
    ),
    **dict.fromkeys(
        (
            "gateway install claude-code --profile relay",
            "gateway install claude-code --profile relay --native-always",
        ),
        "hosts/test_install.py::test_a_host_keeps_something_itself_only_where_that_was_asked_for",
    ),
    "gateway hook codex || exit 2": (
        "hosts/test_hook_process.py::test_an_approval_is_told_in_the_hosts_words"
    ),
    "gateway NAME COMMAND": "cli/test_adapters.py::test_an_adapter_adds_commands",
    "gateway NAME setup": "setup/test_from_nothing.py::test_slack_from_nothing_to_the_first_tap",
    "gateway pager test ana": "docs/test_commands.py::test_the_pager_of_the_page_adds_its_command",
    "kill -HUP": "cli/test_policy_file.py::test_it_is_read_again_on_sighup",
    "gateway agent paused": (
        "cli/test_cli.py::test_who_asks_too_much_is_refused_with_a_code_of_its_own"
    ),
    "gateway agent lift NAME": (
        "cli/test_cli.py::test_who_asks_too_much_is_refused_with_a_code_of_its_own"
    ),
    "gateway adapter NAME": "terminal/test_process.py::test_the_owner_answers_out_of_the_box",
    "gateway adapter terminal": "terminal/test_process.py::test_the_owner_answers_out_of_the_box",
    "gateway adapter slack": "slack/test_adapter_process.py::test_36_its_health_follows_slack",
    "gateway adapter folder": (
        "docs/test_write_an_adapter.py::test_the_toy_runs_as_a_process_of_its_own"
    ),
    "gateway slack setup": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway claims list": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway claims approve ID": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway slack check TARGET": "slack/test_checks.py::test_the_command_checks_a_target",
    "gateway discord setup": "discord/test_page.py::test_the_page_leads_to_a_first_approval",
    "gateway discord setup --non-interactive": (
        "discord/test_page.py::test_without_a_terminal_a_claim_waits_for_the_operator"
    ),
    "gateway approver link NAME discord": ("discord/test_claims.py::test_a_code_links_an_account"),
    "gateway discord check TARGET": (
        "discord/test_rights.py::test_permissions_are_checked_per_channel"
    ),
    "gateway discord invite": "discord/test_rights.py::test_the_invite_link_asks_for_the_least",
    "gateway mcp proxy --name files --listen 127.0.0.1:8900 -- COMMAND": (
        "hosts/test_mcp_command.py::test_the_proxy_listens"
    ),
    "gateway mcp proxy --name files --url https://mcp.example.com/mcp --token-env FILES_TOKEN": (
        "hosts/test_mcp_command.py::test_a_server_at_an_address_gets_its_token"
    ),
    "gateway mcp server": "hosts/test_mcp_command.py::test_the_server_that_asks_is_a_command",
    "gateway bridge dexto": "hosts/test_dexto.py::test_remembering_is_the_gateways",
    "gateway bridge dexto --url http://127.0.0.1:3000": (
        "hosts/test_dexto.py::test_remembering_is_the_gateways"
    ),
    **dict.fromkeys(
        (
            "gateway bridge acp -- COMMAND",
            "gateway bridge acp -- gemini --acp",
            "gateway bridge acp",
            "gateway bridge codex-app-server",
            "gateway bridge codex-app-server -- codex app-server",
        ),
        "hosts/test_rpc_bridges.py::test_each_answer_is_told_in_the_protocols_words",
    ),
    "gateway bridge acp --native-always -- gemini --acp": (
        "hosts/test_rpc_bridges.py::test_the_agent_keeps_what_a_person_chose"
    ),
    "gateway bridge opencode": (
        "hosts/test_bridges.py::test_a_bridge_names_the_host_that_does_not_answer"
    ),
    "gateway bridge opencode --url http://127.0.0.1:4096": (
        "hosts/test_bridges.py::test_a_bridge_names_the_host_that_does_not_answer"
    ),
    "gateway bridge gptme-server": (
        "hosts/test_bridges.py::test_a_bridge_names_the_host_that_does_not_answer"
    ),
    "gateway saiki convert agent.yml --agent shop --approver ann": (
        "saiki/test_configuration.py::test_the_command_prints_the_route"
    ),
    "gateway audit export - | grep '^{\"seal\"' | tail -n 1 > head.jsonl": (
        "docs/test_audit_page.py::test_a_kept_head_tells_that_the_end_is_missing"
    ),
    "gateway audit verify audit.jsonl && grep -Fxf head.jsonl audit.jsonl": (
        "docs/test_audit_page.py::test_a_kept_head_tells_that_the_end_is_missing"
    ),
    "pip install dist/approval_gateway_agent-*.whl": (
        "frame/test_agent_distribution.py::test_it_works_without_the_server"
    ),
    **dict.fromkeys(
        (
            'pipx install "approval-gateway[all] @ git+ADDRESS"',
            'uvx --from "approval-gateway @ git+ADDRESS" gateway demo',
        ),
        "frame/test_packages.py::test_it_is_installed_from_a_repository",
    ),
    'pipx install "./approval_gateway-0.1.0-py3-none-any.whl[all]"': (
        "frame/test_packages.py::test_pipx_installs_it"
    ),
    "uvx approval-gateway demo": "frame/test_packages.py::test_uvx_runs_it",
    "python agent.py": "docs/test_tutorial.py::test_the_first_script_does_what_the_page_says",
    **dict.fromkeys(
        (
            'curl -sS -H "$AUTH" -H "$JSON" -d @- "$URL/v1/requests" <<END',
            'curl -sS -H "$AUTH" "$URL/v1/requests/$ID?wait=60&process=$PROCESS"',
            'curl -sS -H "$AUTH" -H "$JSON" -d "{\\"process\\": \\"$PROCESS\\"}" '
            '"$URL/v1/requests/$ID/consume"',
            """curl -sS -H "$AUTH" -H "$JSON" -d '{"report": {"execution": "succeeded", """
            """"duration_ms": 120}}' "$URL/v1/requests/$ID/report\"""",
        ),
        "docs/test_http_page.py::test_the_commands_ask_as_the_page_says",
    ),
    "gateway hook HOST [--timeout S] [--agent NAME] [--no-edit] [--defer] [--native-always]": (
        "hosts/test_hook_process.py::test_whatever_goes_wrong_blocks"
    ),
    "gateway hook picoclaw": ("hosts/test_picoclaw.py::test_the_command_is_a_hook"),
    "gateway doctor": ("cli/test_with_me.py::test_it_runs_where_no_gateway_does"),
    "gateway devices": ("cli/test_cli.py::test_devices_are_listed_and_signed_out"),
    "gateway up": ("cli/test_running.py::test_it_starts_in_the_background_and_is_ended"),
    "gateway mcp proxy": ("hosts/test_mcp_command.py::test_the_proxy_listens"),
    "gateway adapter": ("terminal/test_process.py::test_the_owner_answers_out_of_the_box"),
    "gateway agent lift": (
        "cli/test_cli.py::test_who_asks_too_much_is_refused_with_a_code_of_its_own"
    ),
    "gateway claims approve": ("slack/test_checks.py::test_the_page_leads_to_a_first_approval"),
    "gateway claims deny": ("slack/test_checks.py::test_the_page_leads_to_a_first_approval"),
    "gateway completion": "cli/test_output.py::test_completion_completes",
}
"""Commands that another test runs, with its name below tests/."""

NOT_HERE = {
    "needs a cluster; `test_a_restore_finds_no_gateway_running` shows where it would run": [
        "kubectl --namespace approvals exec --stdin deployment/approvals -- sh -c "
        "'cat > /tmp/b && gateway restore /tmp/b' < gw.backup",
    ],
    "installs everything anew, and takes minutes": [
        "make setup",
        "make setup && . .venv/bin/activate",
        "make demo",
        "make lock",
        "make clean",
        "make test-emulate",
        "make test-payloads",
        "make packages",
        "make test-packages",
        "make docs-site",
        "make test-docs-site",
        "make test-chart",
        "make test-systemd",
        "python3 -m venv /opt/approval-gateway",
        "/opt/approval-gateway/bin/python -m pip install '.[all]'",
        "make test-hosts",
        "make test-hosts HOSTS=aap",
        "make test-hosts HOSTS=mcp",
        "make test-hosts HOSTS=typescript",
        "pip install '.[mcp]'",
        "pip install 'gptme[server]'",
        "pip install agentapprovalprotocol",
        "pipx inject gptme dist/approval_gateway_agent-*.whl",
        ".ci/run",
    ],
    "needs the framework, and a model, which the tests of that host stand in for": [
        "python clean_up.py",
        "python restart.py",
    ],
    "runs tests or checks within a test": [
        "make quick",
        "make test",
        "make PYTHON=python3.13 test",
        "make test-thorough",
        "make test-slow",
        "make mutants",
        "make mutants ONLY=--chosen",
        "make check",
        "make lint",
        "make imports",
        "python -m tests.mutants --jobs 2",
    ],
    "measures for minutes": [
        "make bench",
        "python -m benchmarks click_to_wake",
        "python -m benchmarks pair replicas",
        "python -m benchmarks frameworks",
        "python -m benchmarks many_waiters",
        "python -m benchmarks hooks",
    ],
    "writes into the checkout": [
        "make agent-wheel",
        "make format",
        "make screenshots",
        "make gallery",
        "python -m tests.web.reading_cards after",
        "python -m tests.docs.cli_page",
    ],
    "builds images, or machines": [
        "make test-guide",
        "make test-image",
        "make test-image IMAGE_ENGINE=docker",
    ],
}
"""Commands that no test can run, by reason. Of those for make, a dry run reads the rules."""
