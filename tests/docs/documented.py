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
    "gateway ask": Line("name the tool", code=2),
    "gateway ask --no-wait": Line("name the tool", code=2),
    "gateway run": Line("name the command after --", code=122),
    "gateway wait": NAMED,
    "gateway ask TOOL [--hint WHY] [-- COMMAND]": [
        Line("approved by owner", typed="gateway ask TOOL", answer="approve"),
        Line(
            "denied by owner",
            code=1,
            typed="gateway ask TOOL --hint 'it is old' -- COMMAND",
            answer="deny",
        ),
    ],
    "gateway wait ID": Line("approved by owner", first=("gateway approve ID",)),
    "gateway ask --human": Line(
        "approved by owner", typed="gateway ask --human shell -- ls", answer="approve"
    ),
    "gateway ask --json": Line(
        '(?s)"arguments":.*"command": "ls"',
        typed="gateway ask --json shell -- ls",
        answer="approve",
    ),
    "gateway ask --file PATH": [
        Line(
            "approved by owner",
            typed="gateway ask shell --file deploy.sh -- ls",
            answer="approve --yes",
        ),
    ],
    "gateway ask --cwd DIR": [
        Line(
            "approved by owner",
            typed="gateway ask shell --cwd build -- make",
            answer="approve",
            then=("gateway history --limit 1 | grep 'in the folder \"[^ ]*/build\"'",),
        ),
    ],
    "gateway ask --role NAME=ROLE": [
        Line(
            "approved by owner",
            typed="gateway ask post --arg text=done --role text=data",
            answer="approve",
        ),
    ],
    "gateway ask --no-wait … && run": Line(
        r"(?s)\A(?!.*run)\{\"id\"", code=6, typed="gateway ask --no-wait shell -- ls && run"
    ),
    "gateway run [--edit] [--file PATH] -- COMMAND": Line(
        "^edits$",
        typed="gateway run --edit --file deploy.sh -- echo edits",
        answer="approve --yes",
    ),
    "gateway run -- ./deploy.sh production": Line("denied by owner", code=121, answer="deny"),
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
    'cmd=$(gateway ask shell --cwd build --edit -- make) && eval "$cmd"': Line(
        "^made$", answer="approve", first=("rm Makefile",)
    ),
    "gateway ask shell --file deploy.sh -- ./deploy.sh && ./deploy.sh": Line(
        "^deployed$", answer="approve --yes"
    ),
    "gateway ask post --arg channel=#ops --arg text=done --role text=data": Line(
        "owner approved", answer="approve"
    ),
    # What people answer.
    "gateway pending": Line("ls -l", first=ASKED),
    "gateway show": NAMED,
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
    "gateway approve ID@REVISION": Line("(?s)owner approved .*@2$"),
    "gateway approve ID": Line("owner approved"),
    "gateway approve $ID": Line("owner approved"),
    "gateway approve ID…": [
        Line("(?s)owner approved.*owner approved", typed="gateway approve ID ID2"),
        Line("owner approved", typed="gateway approve REQUEST --yes"),
    ],
    "gateway deny ID… --reason": [
        Line("(?s)owner denied.*owner denied", typed="gateway deny ID ID2 --reason why"),
        Line(
            "asked for another plan",
            typed="gateway deny REQUEST --reason why --feedback",
        ),
    ],
    'gateway deny ID --reason "why"': Line("owner denied", then=("gateway show ID | grep why",)),
    'gateway deny ID --reason "not during the sale"': Line(
        "owner denied", then=("gateway show ID | grep 'not during the sale'",)
    ),
    "gateway approve ID --remember [OFFER] --for 1d --uses 5 --everywhere": [
        Line(
            "owner approved",
            typed="gateway approve ID --remember OFFER --for 1d --uses 5 --everywhere",
            then=("gateway grant list | grep 'used 0 of 5 times'", *FORGET),
        ),
    ],
    "gateway deny ID --remember": Line(
        "owner denied",
        then=("gateway grant list | grep 'deny agent .*in 59 min'", *FORGET),
    ),
    # What is remembered.
    "gateway grant offers ID": Line("approve  [0-9a-f]{16}  exactly this"),
    "gateway grant add AGENT --like ID": [
        Line("choose one with --offer ID", code=2, typed="gateway grant add AGENT --like ID"),
        Line(
            "(?s)deny agent .* session .default., .*in 59 min.*exactly this.*used 0 of 2 times",
            typed="gateway grant add AGENT --like ID --offer OFFER "
            "--deny --session SESSION --for 1h --uses 2",
        ),
        Line("1 revoked", typed="gateway grant revoke --agent AGENT --session SESSION"),
    ],
    "gateway grant add AGENT --tool T --arguments JSON [--kind] [--cwd] [--host]": [
        Line(
            "choose one with --offer ID",
            code=2,
            typed="gateway grant add AGENT --tool shell --arguments JSON "
            "--kind command --cwd /srv --host ci",
        ),
    ],
    "gateway grant add coder --tool shell --kind command "
    """--arguments '{"command": "git log"}' --cwd /srv/app""": Line(
        'exactly this: "git log" in /srv/app', code=2
    ),
    "gateway grant add coder --like 3f9c2a71 --offer 5a82e156737e42ae --for 1d --uses 20": Line(
        "(?s)in 23 h.*exactly this.*used 0 of 20 times", then=FORGET
    ),
    "gateway grant list": Line(
        "exactly this", first=("gateway approve ID --remember",), then=FORGET
    ),
    "gateway grant list --suspended": Line("nothing is suspended"),
    "gateway grant revoke ID": Line(
        "is revoked",
        first=("gateway approve ID --remember",),
        typed="gateway grant revoke GRANT",
    ),
    "gateway grant list [--suspended]|show ID|revoke ID": [
        Line("exactly this", typed="gateway grant list", first=("gateway approve ID --remember",)),
        Line("nothing is suspended", typed="gateway grant list --suspended"),
        Line("all sessions|default", typed="gateway grant show GRANT"),
        Line("is revoked", typed="gateway grant revoke GRANT"),
    ],
    "gateway grant pass AGENT SESSION --edits --hours 2": Line(
        "creating, changing and moving files .*not deleting", then=FORGET
    ),
    "gateway grant pass AGENT SESSION [--edits | --scripts] [--hours 2] [--next 5]": [
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
    "gateway sessions": Line("local +default", first=ASKED),
    "gateway sessions [--agent AGENT]": [
        Line("local +default", typed="gateway sessions --agent AGENT", first=ASKED),
    ],
    "gateway sessions --end NAME --agent AGENT": Line(
        "requests cancelled with it: 1",
        first=("gateway ask shell --session NAME --no-wait -- ls",),
    ),
    # Agents and people.
    "gateway agent add": NAMED,
    "gateway agent rotate": NAMED,
    "gateway agent revoke": NAMED,
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
    "gateway agent add NAME --owner PERSON": Line("token +agw_"),
    "gateway agent rotate NAME": Line("token +agw_", first=("gateway agent add NAME",)),
    "gateway agent add NAME [--owner PERSON]|list|rotate NAME|revoke NAME": [
        Line("token +agw_", typed="gateway agent add NAME --owner PERSON"),
        Line("owner", typed="gateway agent list"),
        Line("token +agw_", typed="gateway agent rotate NAME"),
        Line("is revoked", typed="gateway agent revoke NAME"),
    ],
    "gateway approver add": NAMED,
    "gateway approver revoke": NAMED,
    "gateway approver add NAME": Line("token +agw_"),
    "gateway approver add ana": Line("token +agw_", first=ADMIN),
    "gateway approver revoke NAME": Line(
        "may not decide any more", first=("gateway approver add NAME",)
    ),
    "gateway approver rotate NAME": Line(
        "the old one is valid until", first=("gateway approver add NAME",)
    ),
    "gateway approver add NAME [--admin]|list|rotate NAME|revoke NAME": [
        Line("token +agw_", typed="gateway approver add NAME --admin"),
        Line("owner +admin", typed="gateway approver list"),
        Line("the old one is valid until", typed="gateway approver rotate NAME"),
        Line("may not decide any more", typed="gateway approver revoke NAME"),
    ],
    "gateway login NAME": Line("/inbox/login#code=", first=("gateway approver add NAME",)),
    "gateway login ana": Line("/inbox/login#code=", first=ADMIN),
    "gateway login owner": Line("/inbox/login#code="),
    "gateway devices NAME": Line("is signed in nowhere"),
    "gateway devices NAME --end-all": Line(r"was signed out on 0 device\(s\)"),
    # The policy.
    "gateway apply": NAMED,
    "gateway apply FILE": Line("in force on every replica", first=UNLIKE),
    "gateway apply policy.toml": Line("in force on every replica", first=UNLIKE),
    "gateway apply policy.toml --check": Line(
        "nothing was changed", first=("gateway approver add NAME",)
    ),
    "gateway apply FILE [--check] [--by NAME]": [
        Line(
            "nothing was changed",
            typed="gateway apply FILE --check",
            first=("gateway approver add NAME",),
        ),
        Line("in force on every replica", typed="gateway apply FILE --by NAME"),
        Line("--yes", code=2, typed="gateway apply empty.toml"),
        Line("in force on every replica", typed="gateway apply empty.toml --yes", then=ADMIN),
    ],
    "gateway policy show": Line('"people"'),
    "gateway policy export": Line(r"^\[\[people\]\]$"),
    "gateway policy export > policy.toml": Line(
        r"\A\Z", then=("gateway apply policy.toml | grep 'in force already'",)
    ),
    "gateway policy test FILE": Line(
        "requests replayed: ", typed="gateway policy test policy.toml"
    ),
    "gateway policy test FILE [--days N]": Line(
        "requests replayed: ", typed="gateway policy test policy.toml --days 1"
    ),
    "gateway policy test policy.toml --days 7": Line("requests replayed: "),
    "gateway policy test policy.toml": Line("refused by people, and this file allows it: 0"),
    "gateway status": Line("(?s)^running +yes.*^next +gateway"),
    "gateway tool declare": NAMED,
    "gateway tool declare post_note channel=recipient 'notes[].text=data' "
    "--agents 'bot,ci-*'": Line('(?s)name = "post_note".*"notes\\[\\].text" = "data"'),
    "gateway tool declare todo_write --harmless --yes": Line("harmless = true"),
    "gateway tool declare NAME ADDRESS=ROLE… [--harmless] [--agents NAMES] [--yes]": [
        Line(
            "(?s)harmless = true.*^text = .data",
            typed="gateway tool declare NAME text=data --harmless --agents bot --yes",
        ),
    ],
    "gateway tool list": Line(
        'name = "list_notes"', first=("gateway tool declare list_notes --harmless --yes",)
    ),
    "gateway explain": NAMED,
    "gateway explain AGENT TOOL": Line("result: people are asked"),
    "gateway explain AGENT TOOL --arguments JSON": Line("(?s)argument command.*people are asked"),
    "gateway explain AGENT TOOL [-- COMMAND]": [
        Line("(?s)kind tool.*people are asked", typed="gateway explain AGENT TOOL"),
        Line("(?s)kind command.*people are asked", typed="gateway explain AGENT TOOL -- COMMAND"),
    ],
    # Looking after it.
    "gateway report": Line("answers +denials", first=("gateway deny ID",)),
    "gateway report [--days 30]": [
        Line("answers", typed="gateway report --days 30", first=("gateway deny ID",)),
    ],
    "gateway audit tail": Line("applied a policy|asked for approval", first=ASKED),
    "gateway audit export audit.jsonl": Line("lines written", then=("grep seal audit.jsonl",)),
    "gateway audit export": NAMED,
    "gateway audit verify": NAMED,
    "gateway audit erase": NAMED,
    "gateway audit verify audit.jsonl": Line(
        "nothing is wrong",
        first=("gateway audit export audit.jsonl",),
        typed="GATEWAY_DATA_DIR=none REDIS_URL=redis://127.0.0.1:1 "
        "gateway audit verify audit.jsonl",
    ),
    "gateway audit erase ID": Line("keeps its digest", first=("gateway deny ID",)),
    "gateway audit tail [--lines N]|export FILE [--form trace]|verify FILE|erase ID": [
        Line("owner denied", typed="gateway audit tail --lines 1", first=("gateway deny ID",)),
        Line("lines written", typed="gateway audit export FILE --form trace"),
        Line("lines written", typed="gateway audit export FILE"),
        Line("nothing is wrong", typed="gateway audit verify FILE"),
        Line("keeps its digest", typed="gateway audit erase ID"),
    ],
    "gateway audit export --form interchange FILE": Line("lines written"),
    "gateway audit export --form trace FILE": Line("lines written"),
    "gateway archive give-up": Line("nothing is lost"),
    "gateway archive give-up [--yes]": [
        Line("nothing is lost", typed="gateway archive give-up --yes"),
    ],
    "gateway backup": NAMED,
    "gateway backup gw.backup": Line(r"^gw\.backup is complete: \d+ lines"),
    "gateway backup FILE": Line("is complete", typed="gateway backup a.backup"),
    "gateway restore": Line("name either a backup or", code=2),
    "gateway restore FILE": Line(
        "another gateway .* runs on",
        code=5,
        typed="gateway restore a.backup",
        first=("gateway backup a.backup",),
    ),
    "gateway restore --confirm KIND": Line(
        "no agents are held back", typed="gateway restore --confirm agents"
    ),
    "gateway stop-all": Line("Every new request is denied", then=("gateway resume",)),
    "gateway resume": Line("Agents can ask again", first=("gateway stop-all",)),
    "gateway bridge gptme-server --url http://127.0.0.1:5700": Line(
        "gateway: http://127.0.0.1:\\d+ does not answer", code=5
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
}

_BACKUP = "docs/test_backup_page.py::test_the_page_brings_a_gateway_back"
ELSEWHERE = {
    "gateway restore gw.backup": _BACKUP,
    "gateway restore --confirm grants": _BACKUP,
    "gateway restore --confirm agents": _BACKUP,
    "gateway restore --confirm sign-ins": _BACKUP,
    "gateway restore --confirm links": _BACKUP,
    "redis-cli ACL SETUSER gateway '>NEW'": (
        "backup/test_rotation.py::test_a_new_redis_password_stops_nothing"
    ),
    "redis-cli ACL SETUSER gateway '<OLD'": (
        "backup/test_rotation.py::test_a_new_redis_password_stops_nothing"
    ),
    "redis-cli ACL SAVE": "backup/test_rotation.py::test_a_new_redis_password_stops_nothing",
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
    "gateway devices NAME [--end ID] [--end-all]": (
        "cli/test_cli.py::test_devices_are_listed_and_signed_out"
    ),
    "gateway up": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway up --lan": "cli/test_lan.py::test_a_phone_signs_in_once",
    "python -m tests.grants.everyday_calls": (
        "grants/test_lines.py::test_everyday_calls_need_fewer_questions"
    ),
    "python -m tests.frame.measures": "frame/test_measures.py::test_each_figure_is_printed",
    "gateway up [--detach] [--lan]": (
        "cli/test_running.py::test_it_starts_in_the_background_and_is_ended"
    ),
    "gateway up --detach": "cli/test_running.py::test_it_starts_in_the_background_and_is_ended",
    "gateway down": "cli/test_running.py::test_it_starts_in_the_background_and_is_ended",
    "gateway demo": "cli/test_cli.py::test_the_demo_answers_its_own_requests_without_a_terminal",
    "gateway --env-file FILE COMMAND": (
        "cli/test_env_file.py::test_a_file_is_read_only_where_it_is_named"
    ),
    "gateway --env-file FILE up": (
        "cli/test_env_file.py::test_an_unknown_setting_is_said_at_the_start"
    ),
    "gateway doctor": "cli/test_doctor.py::test_all_is_well_and_documented",
    "gateway doctor --live": "slack/test_checks.py::test_the_page_leads_to_a_first_approval",
    "gateway doctor [--live] [--with-me [PERSON]] [--record FILE]": (
        "cli/test_with_me.py::test_it_runs_where_no_gateway_does"
    ),
    "gateway doctor --live --with-me": "slack/test_live_trial.py::test_all_is_well",
    'eval "$(gateway completion bash)"': "cli/test_output.py::test_completion_completes",
    "gateway completion fish | source": "cli/test_output.py::test_completion_completes",
    "gateway hook": "hosts/test_hook_process.py::test_whatever_goes_wrong_blocks",
    "gateway hook HOST [--timeout S] [--agent NAME] [--no-edit] [--defer]": (
        "hosts/test_hook_process.py::test_whatever_goes_wrong_blocks"
    ),
    "gateway hook claude-code": (
        "hosts/test_hook_process.py::test_an_approval_is_told_in_the_hosts_words"
    ),
    **dict.fromkeys(
        (
            "gateway install",
            "gateway install HOST [--profile relay] [--scope project] [--matcher REGEX] [--wait S] "
            "[--agent NAME] [--defer] [--http] [--yes]",
            "gateway install HOST --check",
            "gateway install HOST --undo [--yes]",
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
    "gateway NAME": "cli/test_adapters.py::test_an_adapter_adds_commands",
    "gateway NAME COMMAND": "cli/test_adapters.py::test_an_adapter_adds_commands",
    "gateway NAME setup": "setup/test_from_nothing.py::test_slack_from_nothing_to_the_first_tap",
    "gateway pager test ana": "docs/test_commands.py::test_the_pager_of_the_page_adds_its_command",
    "gateway show ID --reveal": (
        "cli/test_answering.py::test_secrets_are_shown_to_who_asks_for_them"
    ),
    "kill -HUP": "cli/test_policy_file.py::test_it_is_read_again_on_sighup",
    "gateway agent paused": (
        "cli/test_cli.py::test_who_asks_too_much_is_refused_with_a_code_of_its_own"
    ),
    "gateway agent lift NAME": (
        "cli/test_cli.py::test_who_asks_too_much_is_refused_with_a_code_of_its_own"
    ),
    "gateway approver add owner": (
        "docs/test_commands.py::test_a_first_start_with_a_policy_file_makes_no_owner"
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
    "gateway discord check": "discord/test_rights.py::test_permissions_are_checked_per_channel",
    "gateway discord check TARGET": (
        "discord/test_rights.py::test_permissions_are_checked_per_channel"
    ),
    "gateway discord invite": "discord/test_rights.py::test_the_invite_link_asks_for_the_least",
    "gateway hook picoclaw [--timeout S] [--workspace DIR]": (
        "hosts/test_picoclaw.py::test_the_command_is_a_hook"
    ),
    "gateway mcp proxy": (
        "hosts/test_mcp_command.py::test_a_client_starts_the_proxy_in_the_servers_place"
    ),
    "gateway mcp proxy [--name NAME] [--listen HOST:PORT] -- COMMAND…": (
        "hosts/test_mcp_command.py::test_the_proxy_listens"
    ),
    "gateway mcp proxy --name files --listen 127.0.0.1:8900 -- COMMAND": (
        "hosts/test_mcp_command.py::test_the_proxy_listens"
    ),
    "gateway mcp proxy --url URL": (
        "hosts/test_mcp_command.py::test_a_server_at_an_address_gets_its_token"
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
            "gateway bridge acp -- opencode acp",
            "gateway bridge codex-app-server -- COMMAND",
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
    "gateway saiki convert FILE --agent AGENT [--approver NAME]": (
        "saiki/test_configuration.py::test_the_command_prints_the_route"
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
}
"""Commands that another test runs, with its name below tests/."""

NOT_HERE = {
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
        "python -m benchmarks frameworks",
        "python -m benchmarks many_waiters",
        "python -m benchmarks hooks",
    ],
    "writes into the checkout": [
        "make agent-wheel",
        "make format",
        "make screenshots",
        "make gallery",
        "python -m tests.terminal.captures",
        "python -m tests.web.reading_cards after",
    ],
    "needs Docker": ["docker compose exec slack gateway doctor --live"],
}
"""Commands that no test can run, by reason. Of those for make, a dry run reads the rules."""
