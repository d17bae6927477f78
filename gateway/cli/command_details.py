"""Define the details in `gateway COMMAND --help`, by the function that runs the command."""

DETAILS = {
    "serve.up": (
        "Without REDIS_URL, also starts the embedded server. At a terminal, press Enter for a"
        " new sign-in link. On SIGHUP it reads the policy file again."
    ),
    "running.down": (
        "Stops the process that holds up.lock in the data folder, and waits until it has ended."
    ),
    "running.show_status": (
        "Prints its address, its adapters, the number of pending requests, its policy file "
        "and the next command."
    ),
    "serve.adapter": (
        "Serves /healthz, /readyz and its pages at GATEWAY_PORT; the terminal adapter serves "
        "nothing."
    ),
    "requests.show_pending": (
        "A row has a number, the call, its age, the time left, the session, the risk, the "
        "findings, the approvers and ID@REVISION. A call that does not fit its row ends in "
        "“…”."
    ),
    "requests.show_history": "A row also shows who decided, how, and how long that took.",
    "requests.show": (
        "Prints the whole call and the agent's hint. Escapes text of agents and masks secrets."
    ),
    "requests.approve": (
        "Several ids of one agent's requests are decided as a batch. A number means a row of the "
        "list that "
        "`gateway pending` printed in this terminal in the last 15 minutes. ID@REVISION "
        "approves that revision only. The whole id is enough if nobody edited the request."
    ),
    "requests.deny": "Several ids of one agent's requests are decided as a batch.",
    "grants.add": "Only admins can run this. Without --offer, it prints the offers and exits "
    "with 2.",
    "grants.show": "For a grant that has ended, give the whole id.",
    "grants.add_pass": "The pass covers only calls that are known to stay within it.",
    "agents_and_approvers.add_agent": (
        "Also creates a Redis user, which can only write to the agent's stream and read its "
        "replies. If a Redis server is down, the command names it; rotate the agent when the "
        "server is back."
    ),
    "agents_and_approvers.rotate_agent": (
        "When the old token expires, the gateway removes the old password and closes the agent's "
        "Redis connections."
    ),
    "agents_and_approvers.revoke_agent": (
        "Cancels its pending requests, ends its sessions and grants, and voids approvals that"
        " it has not claimed."
    ),
    "agents_and_approvers.revoke_approver": (
        "Removes the person from every route. A chat group that a route names still admits "
        "its members."
    ),
    "agents_and_approvers.list_approvers": (
        "Also lists people without a token, and tokens without a person."
    ),
    "policy.apply": "Prints the changes, and asks first at a terminal.",
    "policy.declare_tool": "Adds the declaration to earlier declarations of the tool.",
    "policy.explain_call": "Only admins can run this. Prints what each decider returns, and the "
    "approvers.",
    "audit.erase": "Removes arguments and result. Digest, decision, times and sealed events stay.",
    "audit.give_up": "Without --yes it prints the lost segments and exits with 1.",
    "completion.print_completion": ('Run for example eval "$(gateway completion bash)".'),
}
