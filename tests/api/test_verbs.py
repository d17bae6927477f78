"""The agents' verbs and the approvers' routes, each once along its whole way."""

from dataclasses import replace

from gateway.domain.policy_document import Route
from gateway.models import Reason, State, new_id
from gateway.wire.codec import build
from gateway.wire.signatures import Signer, Verifier
from tests.api.replica import (
    AGENT_TOKEN,
    ANN_TOKEN,
    EVE_TOKEN,
    OTHER_TOKEN,
    PROCESS,
    SEED,
    Replica,
    made,
    replica,
)

BOTH_APPROVE = Route(approvers=("ann", "eve"))


async def test_submit_answers_created_then_known(gate: Replica) -> None:
    """The same request is created once (201) and found the second time (200)."""
    request = made()
    first = await gate.submitted(request)
    again = await gate.submitted(request)
    assert (first.status, again.status) == (201, 200)
    assert build(State, first.json).status == "pending"
    assert again.json["id"] == request.id


async def test_submit_to_a_taken_id_with_other_content_is_a_conflict(gate: Replica) -> None:
    """One id never stands for two actions."""
    request = made()
    await gate.submitted(request)
    other = made(id=request.id, arguments={"command": "rm -rf /"})
    assert (await gate.submitted(other)).problem == (409, "conflict")


async def test_submit_for_another_agent_is_refused(gate: Replica) -> None:
    """A token submits for its own agent only."""
    assert (await gate.submitted(made(agent="agent2"))).problem == (403, "unauthorized")


async def test_decision_reaches_the_submitter_signed_and_without_the_note(gate: Replica) -> None:
    """The submitting process gets a decision that verifies; the note stays with the approvers."""
    request = made()
    await gate.submitted(request)
    decided = await gate.decided(request.id, message="go", note="private words")
    assert decided.json["note"] == "private words"
    answer = await gate.call("GET", f"/v1/requests/{request.id}?process={PROCESS}")
    decision = build(State, answer.json).decision
    assert decision is not None
    assert (decision.status, decision.decided_by.name, decision.message) == (
        "approved",
        "ann",
        "go",
    )
    Verifier(Signer(SEED).public_key).verify(decision.signed_bytes(), decision.signature)
    assert "private words" not in answer.text


async def test_another_process_sees_the_status_without_the_decision(gate: Replica) -> None:
    """Only the process that may act on an approval gets it; others consume it and are warned."""
    request = made()
    await gate.submitted(request)
    await gate.decided(request.id)
    path = f"/v1/requests/{request.id}"
    seen = (await gate.call("GET", f"{path}?process=anotherone")).json
    assert (seen["status"], "decision" in seen) == ("approved", False)
    taken = await gate.call("POST", f"{path}/consume", {"process": "anotherone"})
    assert taken.json["decision"]["status"] == "approved"
    assert taken.json["may_have_run"] is True


async def test_cancel_ends_a_request_with_its_reason(gate: Replica) -> None:
    """An agent withdraws its request and says why."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}/cancel"
    answer = await gate.call("POST", path, {"reason": "superseded", "message": "newer"})
    assert answer.json["decision"]["reason"] == "superseded"
    assert answer.json["status"] == "cancelled"


async def test_cancel_before_submit_leaves_a_tombstone(gate: Replica) -> None:
    """A cancel that overtakes its submit still wins."""
    request = made()
    early = await gate.call("POST", f"/v1/requests/{request.id}/cancel", {})
    assert early.json["status"] == "cancelled"
    assert (await gate.submitted(request)).json["status"] == "cancelled"


async def test_cancel_refuses_a_reason_that_is_not_the_agents(gate: Replica) -> None:
    """An agent cannot claim that a person or a rule ended its request, nor make up a reason."""
    for reason in ("person", "quarantined"):
        answer = await gate.call("POST", f"/v1/requests/{new_id()}/cancel", {"reason": reason})
        assert answer.problem == (422, "invalid_request")


async def test_report_is_kept_and_seen_by_approvers(gate: Replica) -> None:
    """What became of the action stands in the approver's view."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}"
    early = await gate.call("POST", f"{path}/report", {"report": {"execution": "started"}})
    assert early.problem == (409, "conflict")
    await gate.decided(request.id)
    report = {"execution": "succeeded", "duration_ms": 12}
    assert (await gate.call("POST", f"{path}/report", {"report": report})).status == 200
    assert (await gate.call("GET", path, token=ANN_TOKEN)).json["report"] == report


async def test_sync_answers_own_requests_only(gate: Replica) -> None:
    """Foreign and unknown ids are left out, without a word about which they are."""
    request = made()
    await gate.submitted(request)
    body = {"process": "otherprocess", "ids": [request.id, new_id()]}
    assert [one["id"] for one in (await gate.call("POST", "/v1/sync", body)).json["items"]] == [
        request.id
    ]
    assert (await gate.call("POST", "/v1/sync", body, token=OTHER_TOKEN)).json == {"items": []}


async def test_sync_takes_a_thousand_ids_and_no_more(gate: Replica) -> None:
    """A message stays bounded."""
    body = {"process": PROCESS, "ids": [new_id() for _ in range(1000)]}
    assert (await gate.call("POST", "/v1/sync", body)).status == 200
    body["ids"] = [new_id() for _ in range(1001)]
    assert (await gate.call("POST", "/v1/sync", body)).problem == (422, "invalid_request")
    broken = {"process": PROCESS, "ids": ["x" * 32]}
    assert (await gate.call("POST", "/v1/sync", broken)).problem == (422, "invalid_request")


async def test_sessions_are_listed_and_ended_per_agent(gate: Replica) -> None:
    """Ending a session cancels what waits in it; a session's name may hold a slash."""
    request = made(session="repo/main")
    await gate.submitted(request)
    listed = (await gate.call("GET", "/v1/sessions")).json["items"]
    assert [(one["agent"], one["name"]) for one in listed] == [("agent1", "repo/main")]
    assert (await gate.call("GET", "/v1/sessions", token=OTHER_TOKEN)).json == {"items": []}
    other = await gate.call("POST", "/v1/sessions/repo%2Fmain/end", token=OTHER_TOKEN, raw=b"")
    assert other.json == {"cancelled": []}
    mine = await gate.call("POST", "/v1/sessions/repo%2Fmain/end", {})
    assert mine.json == {"cancelled": [request.id]}


async def test_approver_ends_a_session_only_of_a_named_agent(gate: Replica) -> None:
    """Sessions belong to agents: an approver has to say whose is meant."""
    request = made()
    await gate.submitted(request)
    path = "/v1/sessions/default/end"
    assert (await gate.call("POST", path, {}, token=ANN_TOKEN)).problem[0] == 422
    answer = await gate.call("POST", f"{path}?agent=agent1", {}, token=ANN_TOKEN)
    assert answer.json == {"cancelled": [request.id]}


async def test_list_shows_agents_their_own_without_decisions(gate: Replica) -> None:
    """A listing never hands out a decision or another agent's request."""
    request = made()
    await gate.submitted(request)
    await gate.decided(request.id, note="private words")
    mine = await gate.call("GET", "/v1/requests?status=approved")
    assert [one["request"]["id"] for one in mine.json["items"]] == [request.id]
    assert "decision" not in mine.json["items"][0]
    assert "private words" not in mine.text
    foreign = await gate.call("GET", "/v1/requests?final=true&agent=agent1", token=OTHER_TOKEN)
    assert foreign.json["items"] == []
    approvers = (await gate.call("GET", "/v1/requests?final=true", token=ANN_TOKEN)).json
    assert approvers["items"][0]["decision"]["decided_by"]["name"] == "ann"


async def test_list_pages_through_everything_once(gate: Replica) -> None:
    """Following `next` shows each request once, newest first, and ends."""
    ids = [(await gate.submitted()).json["id"] for _ in range(5)]
    seen: list[str] = []
    path = "/v1/requests?limit=2"
    while True:
        page = (await gate.call("GET", path, token=ANN_TOKEN)).json
        seen += [one["request"]["id"] for one in page["items"]]
        if page.get("next") is None:
            break
        path = f"/v1/requests?limit=2&after={page['next']}"
    assert sorted(seen) == sorted(ids)


async def test_edit_gives_the_agent_new_arguments_and_digest(gate: Replica) -> None:
    """An approver's edit is what the agent gets to run."""
    request = made(allowed=("approve", "edit", "deny"))
    await gate.submitted(request)
    edited = await gate.decided(request.id, "edit", arguments={"command": "ls -l"})
    assert edited.json["arguments"] == {"command": "ls -l"}
    state = (await gate.call("GET", f"/v1/requests/{request.id}?process={PROCESS}")).json
    assert state["decision"]["arguments"] == {"command": "ls -l"}
    assert state["digest"] != request.digest


async def test_feedback_is_told_apart_from_a_plain_denial(gate: Replica) -> None:
    """`feedback` asks the agent for another plan, in the reason code."""
    request = made()
    await gate.submitted(request)
    view = await gate.decided(request.id, "deny", message="use a dry run", feedback=True)
    assert view.json["decision"]["reason"] == "feedback"


async def test_decide_is_the_same_call_with_the_same_nonce(gate: Replica) -> None:
    """A repeated decide with its nonce is told what it did; another one is told it came late."""
    request = made()
    await gate.submitted(request)
    first = await gate.decided(request.id, nonce="click-0001")
    again = await gate.decided(request.id, nonce="click-0001")
    late = await gate.decided(request.id, "deny", nonce="click-0002")
    assert (first.status, again.status) == (200, 200)
    assert again.json["decision"] == first.json["decision"]
    assert late.problem == (409, "conflict")


async def test_decide_on_an_unknown_revision_is_a_conflict(gate: Replica) -> None:
    """Who did not see this revision does not decide it."""
    request = made()
    await gate.submitted(request)
    assert (await gate.decided(request.id, revision=7)).problem == (409, "conflict")
    assert (await gate.core.requests.get(request.id)).status == "pending"


async def test_decide_with_an_action_that_is_not_allowed_is_refused(gate: Replica) -> None:
    """The request's allowed actions bind the API too."""
    request = made()
    await gate.submitted(request)
    refused = await gate.decided(request.id, "respond", result="done")
    assert refused.problem == (422, "invalid_request")


async def test_secret_answers_reach_the_asking_process_only(gate: Replica) -> None:
    """A secret answer is in the asker's state, and in no view, listing or other process's state."""
    request = made(
        kind="question",
        questions=[{"id": "pin", "text": "PIN?", "secret": True}],
        allowed=("answer", "deny"),
    )
    await gate.submitted(request)
    view = await gate.decided(request.id, "answer", answers={"pin": "s3cr3t-pin"})
    assert view.status == 200
    path = f"/v1/requests/{request.id}"
    asker = await gate.call("GET", f"{path}?process={PROCESS}")
    assert asker.json["secrets"] == {"pin": "s3cr3t-pin"}
    others = [
        view,
        await gate.call("GET", f"{path}?process=anotherone"),
        await gate.call("GET", "/v1/requests?final=true"),
        await gate.call("GET", path, token=ANN_TOKEN),
    ]
    assert not any("s3cr3t-pin" in one.text for one in others)


async def test_enrolment_needs_its_secret(server_url: str, namespace: str) -> None:
    """A local agent gets a credential for the secret, and nothing for any other."""
    async with replica(server_url, namespace, enrolment=True) as gate:
        body = {"agent": "local"}
        refused = await gate.call("POST", "/v1/enroll", body, token="guess")
        assert refused.problem == (401, "unauthorized")
        answer = await gate.call("POST", "/v1/enroll", body, token="enrol-secret")
        assert answer.json["token"] == "agw_local_x"
        bad_name = await gate.call("POST", "/v1/enroll", {"agent": "../x"}, token="enrol-secret")
        assert bad_name.problem == (422, "invalid_request")


async def test_enrolment_is_absent_where_it_is_not_given(gate: Replica) -> None:
    """In production there is no such route."""
    answer = await gate.call("POST", "/v1/enroll", {"agent": "local"}, token="enrol-secret")
    assert answer.problem == (404, "not_found")


async def test_a_later_holder_of_a_name_sees_nothing_of_an_earlier_one(gate: Replica) -> None:
    """Neither listed nor found: what the other asked is not theirs."""
    request = made()
    await gate.submitted(request)
    later = gate.credentials.known[AGENT_TOKEN]
    gate.credentials.known[AGENT_TOKEN] = replace(later, since=2**50)
    assert (await gate.call("GET", "/v1/requests")).json["items"] == []
    answer = await gate.call("GET", f"/v1/requests/{request.id}?process={PROCESS}")
    assert answer.problem == (404, "not_found")


async def test_only_an_approver_of_the_agent_ends_its_sessions(gate: Replica) -> None:
    """Eve decides nothing of this agent, and cancels nothing either; ann does, by name."""
    request = made()
    await gate.submitted(request)
    path = "/v1/sessions/default/end?agent=agent1"
    refused = await gate.call("POST", path, {}, token=EVE_TOKEN)
    assert refused.problem == (403, "unauthorized")
    ended = await gate.call("POST", path, {}, token=ANN_TOKEN)
    assert ended.json == {"cancelled": [request.id]}
    record = await gate.core.requests.get(request.id)
    assert record.decision is not None
    assert record.decision.reason is Reason.CANCELLED_BY_OPERATOR


async def test_a_nonce_is_its_senders_own(gate: Replica) -> None:
    """Another approver with the same nonce is not told that the click was theirs."""
    await gate.put(routes=(BOTH_APPROVE,))
    request = made()
    await gate.submitted(request)
    path, body = f"/v1/requests/{request.id}/decide", {"revision": 1, "nonce": "click-0001"}
    mine = await gate.call("POST", path, {**body, "action": "approve"}, token=ANN_TOKEN)
    theirs = await gate.call("POST", path, {**body, "action": "deny"}, token=EVE_TOKEN)
    assert mine.status == 200
    assert theirs.problem == (409, "conflict")
