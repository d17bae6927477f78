"""What people can do in one chat they can do in the other: each behaviour, and the test of it in
Slack and in Discord."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]

BEHAVIOURS = {
    "a card, one tap": (
        "decisions::test_one_tap_approves",
        "cards::test_a_card_is_posted_and_approved_with_one_tap",
    ),
    "the full view before a long one is approved": (
        "delivery::test_07_what_does_not_fit_is_attached_and_approved_from_the_full_view",
        "cards::test_a_long_request_is_approved_only_from_the_full_view",
    ),
    "questions": (
        "forms::test_questions_are_answered_in_a_form",
        "rendering::test_a_question_is_answered_in_a_modal",
    ),
    "secrets are asked for in the inbox only": (
        "forms::test_secrets_are_not_asked_for_in_slack",
        "rendering::test_what_no_modal_can_carry_goes_to_the_inbox",
    ),
    "edit": (
        "forms::test_an_edit_is_checked_shown_as_a_diff_and_runs",
        "cards::test_arguments_are_edited_in_a_modal",
    ),
    "deny, with feedback": (
        "decisions::test_denying_asks_for_a_reason",
        "cards::test_a_denial_carries_its_reason",
    ),
    "respond instead, and stop": (
        "forms::test_responding_and_stopping",
        "cards::test_a_result_instead_and_a_stop_are_told_as_what_they_are",
    ),
    "remember": (
        "forms::test_remembering_says_what_it_covers_and_can_be_taken_back",
        "remember_options::test_what_is_remembered_is_taken_back_in_one_tap",
    ),
    "remember a denial": (
        "forms::test_a_denial_can_be_remembered",
        "remember_options::test_a_denial_is_remembered_everywhere",
    ),
    "high risk is never remembered": (
        "forms::test_high_risk_is_never_remembered",
        "remember_options::test_nothing_dangerous_is_offered_to_be_remembered",
    ),
    "high risk is confirmed": (
        "authorisation::test_20_high_risk_asks_are_you_sure",
        "rendering::test_high_risk_is_confirmed_from_the_full_view",
    ),
    "claim": (
        "decisions::test_claiming_tells_the_others",
        "authorization::test_someone_says_that_they_are_looking",
    ),
    "reminder": (
        "delivery::test_reminders_and_escalation_call_the_approvers",
        "notices::test_a_reminder_calls_the_approvers_and_nobody_else",
    ),
    "a card calls the approvers": (
        "delivery::test_a_thread_takes_the_card_its_file_and_its_replies",
        "notices::test_a_card_calls_the_approvers_when_the_route_says_so",
    ),
    "escalation": (
        "delivery::test_reminders_and_escalation_call_the_approvers",
        "notices::test_when_nobody_answers_others_are_asked",
    ),
    "fail-over": (
        "delivery::test_02_what_nobody_can_see_goes_to_the_next_target",
        "delivery::test_03_a_refusing_channel_fails_over_or_is_said",
    ),
    "nobody reached is told at once": (
        "delivery::test_02_nobody_anywhere_is_told_to_the_agent_at_once",
        "delivery::test_03_a_refusing_channel_fails_over_or_is_said",
    ),
    "the requester is told": (
        "delivery::test_the_requester_is_told_the_outcome",
        "notices::test_the_outcome_reaches_who_asked_in_direct_messages",
    ),
    "the result is added": (
        "decisions::test_31_the_result_is_appended_and_rings",
        "cards::test_what_came_of_it_is_written_on_the_card",
    ),
    "quorum": (
        "decisions::test_27_a_quorum_counts_people",
        "authorization::test_27_a_quorum_counts_people_and_one_denial_ends_it",
    ),
    "refusals, private and audited": (
        "authorisation::test_18_a_stranger_is_told_privately_and_written_down",
        "cards::test_someone_else_is_refused_privately",
    ),
    "no self-approval of what is dangerous": (
        "authorisation::test_20_who_asked_may_not_approve_high_risk",
        "authorization::test_25_nobody_approves_their_own_dangerous_request",
    ),
    "rights are read again at a form's end": (
        "authorisation::test_23_rights_are_checked_again_when_a_modal_is_submitted",
        "authorization::test_24_a_role_is_lost_between_card_click_and_modal",
    ),
    "bots decide nothing": (
        "authorisation::test_22_bots_guests_and_strangers_are_refused",
        "authorization::test_25_neither_bots_nor_the_timed_out_nor_the_mighty_decide",
    ),
    "a command beside the card": (
        "surfaces::test_42_the_command_decides_with_the_buttons_checks",
        "authorization::test_28_commands_check_what_buttons_check",
    ),
    "one decision of two processes": (
        "decisions::test_24_two_replicas_make_one_decision",
        "replicas::test_13_two_processes_that_listen_make_one_decision",
    ),
    "a restart loses no card": (
        "decisions::test_26_clicks_survive_a_restart",
        "clicks::test_20_a_hundred_live_cards_outlive_their_process",
    ),
    "what was decided before a crash is shown after it": (
        "edits::test_34_what_was_decided_before_a_crash_is_shown_after_it",
        "clicks::test_19_a_process_killed_between_decision_and_edit_leaves_a_true_card",
    ),
    "an agent's markup does nothing": (
        "rendering::test_09_markup_of_agents_is_never_parsed",
        "rendering::test_31_text_can_neither_hide_nor_act",
    ),
    "doctor": ("checks::test_all_is_well", "rights::test_doctor_says_what_is_well"),
    "the page leads to a first approval": (
        "checks::test_the_page_leads_to_a_first_approval",
        "page::test_the_page_leads_to_a_first_approval",
    ),
}


@cache
def _tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in tree.body if isinstance(one, kinds))


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_both_chats_have_it(behaviour: str) -> None:
    """The named tests are there."""
    for chat, named in zip(("slack", "discord"), BEHAVIOURS[behaviour], strict=True):
        module, _, test = named.partition("::")
        assert test in _tests(FOLDER / chat / f"test_{module}.py"), f"{chat}: {named}"


SCENARIOS = {"slack": 48, "discord": 45}


@pytest.mark.parametrize("chat", SCENARIOS)
def test_every_scenario_is_a_test_by_its_number(chat: str) -> None:
    """Those of the reference; a test of several names each."""
    names = " ".join(one for path in (FOLDER / chat).glob("test_*.py") for one in _tests(path))
    named = {int(number) for number in re.findall(r"(?:test|and)_(\d\d)_", names)}
    assert named == set(range(1, SCENARIOS[chat] + 1))
