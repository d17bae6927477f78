"""The plain cases stay smooth: without this table, a matcher that denies everything would pass."""

import pytest

from gateway.models import Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, Shape
from gateway.policy.grants.offers import narrowest, offers
from tests.grants.everyday import count, covered, figures, pairs
from tests.grants.everyday_report import report
from tests.grants.making import allowed, asked, command, granted, offer_of, patterns_of, remembered
from tests.sweeps import sweep

# What was approved with "any of its flags", and what must then go through.
EVERYDAY = [
    ("ls", "ls -la"),
    ("ls src", "ls -lah src/app"),
    ("pwd", "pwd -P"),
    ("whoami", "whoami"),
    ("date +%F", "date -u '+%Y-%m-%d %H:%M'"),
    ("uname -a", "uname -r"),
    ("df -h", "df -h"),
    ("du -sh src", "du -h --max-depth=1 src"),
    ("echo hi", "echo 'done, 3 files changed'"),
    ("cat README.md", "cat 'docs/a b.md'"),
    ("cat README.md", "cat /ws/docs/x.md"),
    ("head -n 5 a.txt", "head -20 b.txt"),
    ("tail -n 100 app.log", "tail -5 app.log"),
    ("wc -l a.py", "wc -l src/a.py src/b.py"),
    ("stat a", "stat -c %s a"),
    ("file a", "file -b a"),
    ("tree -L 2", "tree -L 3 --dirsfirst"),
    ("sort a.txt", "sort -rn a.txt"),
    ("cut -d, -f1 a.csv", "cut -d , -f 2 a.csv"),
    ("diff a b", "diff -u a b"),
    ("sha256sum a", "sha256sum dist/a.whl"),
    ("mkdir -p build", "mkdir -p build/out"),
    ("touch a", "touch b"),
    ("grep -rn TODO src", "grep -rni 'def main' src tests"),
    ("grep x a.py", "grep -A3 -B 2 --include='*.py' -r x ."),
    ("rg TODO", "rg -n -C 3 'class \\w+' src"),
    ("rg TODO", "rg -l -g '*.py' --type py TODO src"),
    ("sed -n 1,5p a.py", "sed -n 10,50p src/b.py"),
    ("jq .version package.json", "jq -r '.scripts | keys' package.json"),
    ("find . -name '*.py'", "find src -type f -name '*.md' -maxdepth 3"),
    ("git status", "git status --short --branch"),
    ("git log", "git log --oneline -n 20"),
    ("git log", "git log -5 --format='%h %s' --stat"),
    ("git log", "git log --since='2 weeks ago' --author=ann"),
    ("git log main", "git log main..feature/x"),
    ("git diff", "git diff --staged --stat"),
    ("git diff HEAD", "git diff HEAD~1 -- src/a.py"),
    ("git show HEAD", "git show --stat HEAD~3"),
    ("git show HEAD", "git show HEAD:src/a.py"),
    ("git blame a.py", "git blame -L 1,20 src/a.py"),
    ("git branch", "git branch -a"),
    ("git branch --show-current", "git branch --show-current"),
    ("git remote -v", "git remote -v"),
    ("git rev-parse HEAD", "git rev-parse --short HEAD"),
    ("git ls-files", "git ls-files -m"),
    ("git add a.py", "git add src/b.py tests"),
    ("git add -A", "git add -Av"),
    ("git commit -m fix", "git commit -m 'Fix the thing (again)'"),
    ("git commit -am fix", "git commit -a -m 'Fix the thing (again)'"),
    ("git log HEAD", "git log 'HEAD^' --oneline"),
    ("git log HEAD", "git log HEAD~2"),
    ("git log", "git log -S 'def main' --oneline"),
    ("git log", "git log -G 'def [a-z]+' --branches"),
    ("git show HEAD", "git show 'HEAD^'"),
    ("git diff HEAD", "git diff 'HEAD^' HEAD"),
    ("git rev-list HEAD", "git rev-list --count HEAD~5"),
    ("git merge-base a b", "git merge-base --is-ancestor a b"),
    ("git branch", "git branch --merged"),
    ("grep x a.py", "grep -n -e TODO -e FIXME src/a.py"),
    ("grep x a.py", "grep --regexp='a b' src"),
    ("rg TODO", "rg -e TODO -e FIXME src"),
    ("cargo test", "cargo test -- --nocapture"),
    ("cargo test", "cargo test parser -- --test-threads=1 --exact"),
    ("npm run test", "npm run test"),
    ("npm test", "npm run test"),
    ("npm run test", "npm test --silent"),
    ("pytest", "pytest --verbose --exitfirst -rs tests/test_tokens.py"),
    ("cat README.md", "cat AGENTS.md .github/workflows/ci.yml bin/run .gitignore"),
    ("ls", "ls node_modules .github src/auth"),
    ("git fetch origin", "git fetch --prune origin"),
    ("git pull", "git pull --ff-only"),
    ("git push origin main", "git push -u origin main"),
    ("git stash", "git stash -u"),
    ("git switch main", "git switch -c feature/y"),
    ("go test ./...", "go test -v -run 'TestA|TestB' -count=1 ./pkg/..."),
    ("go build ./...", "go build ./cmd/app"),
    ("go vet ./...", "go vet ./pkg/..."),
    ("go mod tidy", "go mod tidy"),
    ("go version", "go version"),
    ("cargo build", "cargo build --release"),
    ("cargo test", "cargo test -p core parser"),
    ("cargo clippy", "cargo clippy --all-targets"),
    ("cargo fmt", "cargo fmt --check"),
    ("npm test", "npm test"),
    ("npm run build", "npm run build --silent"),
    ("npm ls", "npm ls --depth=0"),
    ("npm ci", "npm ci"),
    ("tsc --noEmit", "tsc --noEmit --pretty"),
    ("eslint --fix src", "eslint --fix src/app"),
    ("prettier --check .", "prettier --check src"),
    ("pytest", "pytest -q"),
    ("pytest tests", "pytest -x -vv tests/test_a.py::test_b -k 'not slow' --tb=short"),
    ("mypy src", "mypy --strict src"),
    ("ruff check .", "ruff check --quiet src"),
    ("ruff check --fix .", "ruff check --fix src"),
    ("ruff format .", "ruff format --check ."),
    ("black .", "black --check src"),
    ("pip list", "pip list --outdated"),
    ("pip show requests", "pip show -f flask"),
    ("make test", "make -j4 test"),
    ("make lint", "make -s lint"),
    ("docker ps", "docker ps -a"),
    ("docker logs web", "docker logs --tail 100 web"),
    ("docker compose ps", "docker compose ps"),
    ("kubectl get pods", "kubectl get pods -n prod"),
    ("kubectl logs web-1", "kubectl logs -n prod web-2 --tail=50"),
    ("terraform validate", "terraform validate"),
    ("gh pr list", "gh pr list --state open --limit 10"),
    ("gh pr view 12", "gh pr view 13 --comments"),
]


@sweep(("approved", "next_one"), EVERYDAY, few=20)
def test_a_remembered_command_covers_its_everyday_siblings(approved: str, next_one: str) -> None:
    """What an approver means by "this command" goes through without asking."""
    assert allowed([remembered(command(approved))], command(approved))
    wider = [granted(match, Effect.ALLOW) for match in patterns_of(approved)]
    assert any(allowed([one], command(next_one)) for one in wider)


@sweep("approved", sorted({approved for approved, _ in EVERYDAY}), few=15)
def test_the_narrow_command_covers_what_was_approved_and_less(approved: str) -> None:
    """The first pattern offered permits the flags that were there."""
    narrow = next(
        offer for offer in offers(command(approved)) if offer.match.shape is Shape.PATTERN
    )
    assert allowed([granted(narrow.match)], command(approved))


def test_a_command_may_come_as_a_list_or_with_a_description() -> None:
    """Agents' shells differ: lists, and words about the command beside it."""
    grant = remembered(command("", arguments={"argv": ["git", "log", "-n", "5"]}))
    assert allowed([grant], command("", arguments={"argv": ["git", "log", "-n", "9"]}))
    grant = remembered(command(["bash", "-lc", "git log -n 5"]))
    assert allowed([grant], command(["bash", "-lc", "git log -n 9"]))
    first = {"command": "ls -l", "description": "List the files", "timeout": 1000}
    grant = remembered(command("", arguments=first))
    second = {"command": "ls -la", "description": "Look again", "timeout": 5000}
    assert allowed([grant], command("", arguments=second))
    assert not allowed([grant], command("", arguments={**second, "run_in_background": True}))


def test_ordinary_tools_are_remembered_by_argument_or_whole() -> None:
    """A message to the same channel, a look-up with other words, the same folder."""
    text = {"to": "#ops", "text": "The build of this afternoon is green again, all is well."}
    grant = remembered(asked("send_message", arguments=text))
    other = {"to": "#ops", "text": "Another long enough message about the nightly run.\nBye."}
    assert allowed([grant], asked("send_message", arguments=other))
    assert not allowed([grant], asked("send_message", arguments={**other, "to": "#all"}))
    oslo, bergen = {"city": "Oslo"}, {"city": "Bergen"}
    whole = remembered(asked("get_weather", arguments=oslo, harmless=True), Shape.TOOL)
    assert allowed([whole], asked("get_weather", arguments=bergen, harmless=True))
    assert not allowed([whole], asked("get_weather", arguments=bergen))
    more = {**bergen, "days": 3}  # nobody declared it
    assert not allowed([whole], asked("get_weather", arguments=more, harmless=True))
    write = asked("write_file", kind=Kind.FILE_CHANGE, arguments={"path": "/ws/a.py", "text": "x"})
    folder = remembered(write)
    again = {"path": "/ws/src/b.py", "text": "y\nz"}
    assert allowed([folder], asked("write_file", kind=Kind.FILE_CHANGE, arguments=again))


@pytest.mark.parametrize(
    "tool",
    [
        "shell",
        "Bash",
        "run_command",
        "execute_python",
        "python",
        "runInTerminal",
        "exec",
        "sql_query",
        "mcp__docker__exec",
        "computer",
        "PowerShell",
        "node_repl",
        "\u043epen",
        "Task",
        "ssh",
    ],
)
def test_what_can_do_anything_is_never_offered_whole(tool: str) -> None:
    """Shells, interpreters and their like: the exact arguments, or nothing."""
    shapes = {offer.match.shape for offer in offers(asked(tool, arguments={"x": 1}))}
    assert Shape.TOOL not in shapes


@pytest.mark.parametrize("kind", [Kind.COMMAND, Kind.FILE_CHANGE, Kind.PLAN])
def test_only_plain_tools_are_offered_whole(kind: Kind) -> None:
    """A command, a file change and a plan say in their arguments what they do."""
    shapes = {offer.match.shape for offer in offers(asked("thing", kind=kind, arguments={"x": 1}))}
    assert Shape.TOOL not in shapes


def test_offers_are_narrow_first_and_made_again_alike() -> None:
    """The order is that of width, and a click can name an offer by its id."""
    made = offers(command("git log -n 3"))
    shapes = [offer.match.shape for offer in made]
    assert shapes == [Shape.EXACT, Shape.PATTERN, Shape.PATTERN]
    assert [offer.id for offer in made] == [offer.id for offer in offers(command("git log -n 3"))]
    first = narrowest(command("git log -n 3"))
    assert first is not None
    assert first.match.shape is Shape.EXACT
    assert all(covers(granted(offer.match), command("git log -n 3")) == "yes" for offer in made)


def test_the_words_say_what_is_covered() -> None:
    """An approver reads program, flags and folder."""
    words = offer_of(command("cat -n a.txt")).words
    assert words.startswith("cat on any paths in /ws, with any of its ")
    exact = offer_of(asked(arguments={"x": 1}), Shape.EXACT)
    assert exact.words == "exactly this: lookup with x = 1 in /ws"
    run = offer_of(command("rm -rf build"), Shape.EXACT)
    assert run.words == 'exactly this: "rm -rf build" in /ws'
    long = offer_of(command(f"echo {'a ' * 200}"), Shape.EXACT)
    assert long.words.endswith('a"… (405 characters) in /ws')  # no part of what is quoted


def test_the_corpus_is_as_large_as_it_says() -> None:
    """At least 300 pairs go through, 150 of them calls of real agents, and 150 ask; none twice."""
    wanted, refused = pairs("next"), pairs("ask")
    assert len(wanted) >= 300
    own = sum(pair.host in ("a shell", "own tool") for pair in wanted)
    assert len(wanted) - own >= 150
    assert len(refused) >= 150
    assert len(set(map(repr, wanted + refused))) == len(wanted + refused)
    first_calls = {repr((pair.host, pair.tool, pair.kind, pair.first)) for pair in wanted}
    assert len(first_calls) >= 100


def test_as_many_everyday_pairs_are_covered_as_the_floor_says() -> None:
    """No family of everyday calls asks more often than it did; the report says what asks."""
    counts = count(pair for pair in pairs("next") if covered(pair))
    fallen = [family for family, figure in figures().items() if counts[family] < figure["floor"]]
    assert not fallen, f"{fallen}\n{report()}"


def test_another_call_is_asked_about() -> None:
    """The widest answer to a call covers none that does more, reads elsewhere or goes elsewhere."""
    wrong = [str(pair) for pair in pairs("ask") if covered(pair)]
    assert not wrong, "\n".join(wrong)
